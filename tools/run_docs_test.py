#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A page with blocks of all kinds: what run_docs.py makes of each."""
import sys

from run_docs import tasks_of, wrong_with

PAGE = """# A page

```
tilelace plan gemm_rs --tp 4 \\
         --m 4096 --backend cuda    # one command, its comment dropped
tilelace run --model a --backend cuda
```

```sh
tools/no_such_tool --now
echo one; echo two
```

```
$ tilelace doctor
what it prints
```

```
flags  2 x ranks x workers
```

```cpp
tilelace::ag_gemm(comm, args);
```

<!-- not run: it ends the machine -->
```bash
reboot
```

```python
y = tilelace.gemm_rs(x, w)
```

```python
with torch.cuda.stream(s):
```

```python
this does not parse
```
"""
# line, kind, beginning of the text, whether it is left out, what is wrong
EXPECTED = [
    (4, "shell", "tilelace plan gemm_rs --tp 4 --m 4096 --backend cuda", "", ""),
    (6, "shell", "tilelace run --model a --backend cuda", "needs GPUs", ""),
    (10, "shell", "tools/no_such_tool --now", "", "no such file: tools/no_such_tool"),
    (11, "shell", "echo one; echo two", "", ""),
    (15, "shell", "tilelace doctor", "", ""),
    (29, "shell", "reboot", "it ends the machine", ""),
    (33, "python", "y = tilelace.gemm_rs(x, w)", "", ""),
    (37, "python", "with torch.cuda.stream(s):", "needs GPUs", ""),
    (41, "python", "this does not parse", "", "does not parse"),
]


def main():
    found = []
    for task in tasks_of("page.md", PAGE):
        wrong = "" if task.why_not else wrong_with(task)
        found.append((int(task.place.rpartition(":")[2]), task.kind, task.text, task.why_not, wrong.partition(": invalid")[0]))
    failed = 0
    for got, expected in zip(found, EXPECTED):
        if got != expected:
            failed = 1
            print(f"got {got}\nexpected {expected}")
    if len(found) != len(EXPECTED):
        failed = 1
        print(f"{len(found)} tasks, expected {len(EXPECTED)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
