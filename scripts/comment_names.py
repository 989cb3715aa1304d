#!/usr/bin/env python3
"""comment_names.py - finds names in comments of C that exist nowhere: files, and identifiers with an underscore.

A name exists if a file of the checkout has it, or code does: whole, as the end of a longer one ("begin_head" of
vs_phases_begin_head) or as its beginning ("VS_NOW_").  Names of other projects are in OTHERS.
"""
import collections
import re
import subprocess
import sys

CODE = (".c", ".h", ".S", ".cu", ".cuh", ".def", ".cpp")
# other projects' names, and such as stand for any: each as a pattern for a whole word
OTHERS = """
_Py_DebugOffsets|PyObject_Call|Py_tss_t|PY_VERSION_HEX|METH_NOARGS|SHORT_BINUNICODE|co_code_adaptive|current_frame|instr_ptr|tlbc_\\w+   CPython
SQLITE_NOTFOUND|DW_EH_PE_omit|RLIMIT_MEMLOCK|mmap_lock|pidfd_getfd|_Sp_counted_base   SQLite, DWARF, Linux, libstdc++
PFN_base_vVERSION|[SU]N?(IGN|NSIGN)?(ORM|ED)_INT\\w+   CUDA
get_current_graph_task_id|gpu_kernel_impl\\w*|vectorized_elementwise_kernel|record_function|estimate_zero3_\\w+|gelu_new   PyTorch, DeepSpeed, transformers
interned_data|profile_common|trace_packet   Perfetto
one_TABLE|log_loss|simcuda_nothing_x|set_name|VS_SQL_X   examples
"""
OTHERS_FILES = """
torch/.*|ATen/.*|c10/.*|CUDALoops.cuh|OffsetCalculator.cuh|Reduce.cuh|TensorInfo.cuh|Shape.cu|functional.py|linear.py|.*/torch/version.py   PyTorch
accelerate/.*|/venv/.*|(src/)?transformers/.*|.*modeling_\\w+.py|deepspeed/.*|einops/.*|Lib/pickletools.py|docs/reference/synthetic-track-event.md   others' trees
cudaTypedefs.h|zlib.h   installed headers
a.b.c|Net.h|trainer.c|/home/.*|/tmp/.*|/fake.py|page/NAME.js   examples
"""
WORD = re.compile(r"(?<![\w./:-])[A-Za-z_]\w*_\w*")
FILE = re.compile(r"(?<![\w-])[\w./]*\w\.(?:c|h|sh|py|def|sql|cuh|cu|S|md|js|cmake)(?![\w(])")
PIECE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def patterns(table):
    return re.compile("|".join(f"(?:{line.split('   ')[0].strip()})" for line in table.strip().splitlines()))


def parted(text):
    """-> the code, and [(line, comment)]"""
    code, comments, at = [], [], 0
    for m in PIECE.finditer(text):
        if m.group().startswith(("/*", "//")):
            code.append(text[at : m.start()])
            at = m.end()
            comments.append((text.count("\n", 0, m.start()) + 1, m.group()))
    return " ".join(code + [text[at:]]), comments


def read():
    """-> names in code, those of files, and [(file, line, comment)]"""
    words, comments = set(), []
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.split("\n")
    for path in filter(None, files):
        try:
            text = open(path, encoding="utf-8").read()
        except (OSError, UnicodeDecodeError):
            continue
        if path.endswith(CODE):
            text, found = parted(text)
            comments += [(path, line, comment) for line, comment in found]
        if not path.endswith(".md"):
            words |= set(re.findall(r"[A-Za-z_]\w*", text))
    return words, {f.rsplit("/", 1)[-1] for f in files}, comments


def main():
    words, files, comments = read()
    stems = {f.rsplit(".", 1)[0] for f in files}
    ends, begins = set(), set()
    for w in words:
        parts = w.split("_")
        ends |= {"_".join(parts[i:]) for i in range(1, len(parts))}
        begins |= {"_".join(parts[:i]) + "_" for i in range(1, len(parts))}
    others, others_files = patterns(OTHERS), patterns(OTHERS_FILES)
    found = collections.OrderedDict()

    def exists(w):
        known = w in words or w.lower() in words or w in stems or w in begins or w.lstrip("_") in ends or not w.strip("_")
        formula = w.count("_") == 1 and min(map(len, filter(None, w.split("_")))) <= 2  # g_y
        return known or formula or others.fullmatch(w)

    for path, line, comment in comments:
        for kind, pattern in (("identifier", WORD), ("file", FILE)):
            for m in pattern.finditer(comment):
                w = m.group()
                good = exists(w) if kind == "identifier" else w.rsplit("/", 1)[-1] in files or others_files.fullmatch(w)
                if not good:
                    found.setdefault((kind, w), f"{path}:{line + comment.count(chr(10), 0, m.start())}")
    for (kind, w), place in found.items():
        print(f"{place}: no {kind} is called {w}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
