"""parquet - every allocation of a recording, or every event, as a Parquet file.

    python -m vramscope.parquet run.db blocks.parquet [option of vramscope export ...]

    import vramscope.parquet
    vramscope.parquet.write("run.db", "blocks.parquet", "--rows=events", "-d", "0")

`vramscope export --format=csv` reads the recording, with all that it knows of files that are cut off, folded or shared; what it
writes goes into Parquet piece by piece, so that memory does not grow with the run.  Wants the package pyarrow.
"""

import os
import shutil
import subprocess
import sys
import tempfile

_NUMBERS = {
    "process", "alloc_seq", "free_seq", "device", "address", "size_bytes", "t_alloc_ns", "t_free_ns", "range", "stack", "managed", "seq",
    "t_ns", "context", "stream", "thread", "status", "mate", "framework_bytes", "direct_bytes", "reserved_bytes", "request_bytes",
}
_NAMES = {"op", "space", "phase", "layer", "owner", "line", "role", "api", "made_for", "element_type", "shape"}  # few, and again and again


def _command():
    """The command of the installation that this file belongs to, else the one on PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.normpath(os.path.join(here, "..", "..", "..", "..", "bin", "vramscope"))  # share/vramscope/python/vramscope
    found = beside if os.access(beside, os.X_OK) else shutil.which("vramscope")
    if not found:
        raise FileNotFoundError("the command vramscope is not in PATH: install it anew, or add its bin/ there")
    return found


def _copy(source, out):
    """What pyarrow has against it, or None."""
    import pyarrow

    try:
        _convert(source, out)
    except pyarrow.ArrowException as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _convert(source, out):
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    types = {name: pyarrow.int64() for name in _NUMBERS} | {name: pyarrow.string() for name in _NAMES}
    reader = pyarrow.csv.open_csv(
        source, read_options=pyarrow.csv.ReadOptions(block_size=8 << 20),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False))
    with pyarrow.parquet.ParquetWriter(out, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _part(out):
    """A new file beside OUT, of a name that nothing had: what is there is somebody's."""
    number = 1
    while True:
        part = f"{out}.part{number if number > 1 else ''}"
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            return part
        except FileExistsError:
            number += 1


def write(recording, out, *options):
    """Writes OUT and returns vramscope's exit status: 0, or 3 where events are missing, which it says on stderr.  Raises
    RuntimeError, and leaves no file, where there is nothing to write."""
    command = [_command(), "export", "--format=csv", *options, "--", os.fspath(recording)]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # it is not to be recorded itself
    part = None
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=environment) as process:
        try:
            first, wrong = process.stdout.peek(1), None
            if first:
                part = _part(os.fsdecode(out))
                wrong = _copy(process.stdout, part)
            status = process.wait() if not wrong else process.poll()
            if wrong and status in (None, 0, 3):
                raise RuntimeError(wrong)
            if status not in (0, 3) or not first:
                raise RuntimeError(_said(said) or f"vramscope export: exit status {status}")
            os.replace(part, out)
            part = None
        except BaseException:
            process.kill()
            raise
        finally:
            if part and os.path.exists(part):
                os.unlink(part)
        said.seek(0)
        sys.stderr.write(said.read().decode("utf-8", "replace"))
    return status


def _said(file):
    """What vramscope complained of, in one line."""
    file.seek(0)
    text = " ".join(file.read().decode("utf-8", "replace").split())
    return text[len("vramscope: ") :] if text.startswith("vramscope: ") else text


def main(arguments):
    if len(arguments) < 2:
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    try:
        return write(*arguments)
    except ImportError:
        print("vramscope.parquet: there is no pyarrow: pip install pyarrow", file=sys.stderr)
    except (RuntimeError, OSError) as problem:
        print(f"vramscope.parquet: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
