# SPDX-License-Identifier: Apache-2.0
"""The calls of other libraries, on tilelace."""
