// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "comm/shared_memory.h"
#include "comm/socket_mesh.h"

namespace tilelace::comm {

/// Allocates symmetric memory for the processes of a mesh. Each process makes a memfd and passes it
/// to all others. Collective. Errors: those of Group::allocate; Failure if the ranks are no longer
/// in the same call.
std::shared_ptr<SymmetricMemory> allocate_over(SocketMesh& mesh, std::size_t bytes,
                                               const Deadline& deadline,
                                               const SocketMesh::Check& check);

}  // namespace tilelace::comm
