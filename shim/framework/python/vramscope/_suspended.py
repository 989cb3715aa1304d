"""The program's memory on the host while it does something else: vramscope.suspended()."""

import ctypes
import os
import sys
import time

_PATIENCE = 60  # seconds until others have given back what NCCL's communicators need


def _communicators():
    """The groups of torch.distributed whose communicator PyTorch can suspend (from 2.12 on): name, backend.

    A suspension waits for the group's other ranks, so all ranks must have the groups in one order.  That is their names': with
    use_local_synchronization ranks make groups in different orders.
    """
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    names = getattr(getattr(c10d, "_world", None), "pg_names", {})
    for group, name in sorted(names.items(), key=lambda item: item[1]):
        try:
            backend = group._get_backend(c10d.torch.device("cuda"))
            # one without a communicator would warn that it guesses its device
            can = hasattr(backend, "suspend") and getattr(backend, "_is_initialized", lambda: True)()
        except Exception:
            continue  # the group has none for GPUs
        if can:
            yield name, backend


def _line(error):
    return (str(error) or type(error).__name__).splitlines()[0]


class suspended:
    """Context manager: inside it what lives in the arena's memory is on the host, and other processes can have the device.

        with vramscope.suspended() as suspension:
            if not suspension.moved:
                print(suspension.why)
            evaluate_in_another_process()

    Work on the device inside brings all back first, and so does the end; if another process has the memory by then, the next work waits for it.
    Where nothing can be moved the block runs all the same: `moved` is False, and `why` says why in one line.

    NCCL's buffers go and come with it.  As each rank of a group waits for the others there, all ranks suspend between the same
    collectives.  They call none inside: NCCL does not bring its memory back for one.  A rank of which nothing is moved has NCCL's back
    before the block, and waits for that until the others end theirs.  `why` tells of a group whose memory stays.
    """

    moved = False
    _away = ()
    why = "libvramscope.so is not preloaded"

    def _call(self, name):
        # CDLL, not PyDLL: other threads of Python may have to run before the device is idle
        function = getattr(ctypes.CDLL(None), "vramscope_" + name, None)
        if function is None:
            return False
        text = ctypes.create_string_buffer(512)
        function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        function.restype = ctypes.c_int
        done = function(text, len(text)) == 0
        self.why = text.value.decode("utf-8", "replace")
        return done

    def _suspend_nccl(self):
        """Before the arena: it copies by the device's work.  Returns what is to be said of memory that stays."""
        stays = ""
        for name, backend in list(_communicators()):
            try:
                backend.suspend()
                self._away.append((name, backend))
            except Exception as error:
                # another library's, or a group that only sends between two ranks: their memory has names
                if not any(text in str(error) for text in ("does not support suspend", "not initialized")):
                    stays = f"group {name}: NCCL refuses to give its memory back ({_line(error)}); NCCL_DEBUG=WARN tells more"
        return stays

    def _resume_nccl(self):
        """Tries again where others still have the device's memory: NCCL then goes on where it stopped."""
        until = time.monotonic() + _PATIENCE
        while self._away:
            name, backend = self._away[-1]
            try:
                backend.resume()
                self._away.pop()
            except Exception as error:
                if time.monotonic() > until:
                    raise RuntimeError(f"vramscope: group {name}: NCCL's memory does not come back ({_line(error)}): have other processes free the device's") from error
                time.sleep(0.02)

    def __enter__(self):
        if self._away:
            raise RuntimeError("vramscope.suspended(): it is entered already, or NCCL's memory has not come back since")
        self.moved, self._away = False, []
        try:
            stays = self._suspend_nccl() if os.environ.get("VRAMSCOPE_ALLOCATOR") == "arena" else ""
            self.moved = self._call("suspend")
            self.why = self.why or stays
        finally:
            if not self.moved:
                self._resume_nccl()
        return self

    def __exit__(self, *_):
        try:
            if self.moved:
                self._call("resume")
        finally:
            self._resume_nccl()
        return False
