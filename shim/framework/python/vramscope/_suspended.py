"""The program's memory on the host while it does something else: vramscope.suspended()."""

import ctypes


class suspended:
    """Context manager: inside it what lives in the arena's memory is on the host, and other processes can have the device.

        with vramscope.suspended() as suspension:
            if not suspension.moved:
                print(suspension.why)
            evaluate_in_another_process()

    Work on the device inside brings all back first, and so does the end; if another process has the memory by then, the next work waits for it.
    Where nothing can be moved the block runs all the same: `moved` is False, and `why` says why in one line.
    """

    moved = False
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

    def __enter__(self):
        self.moved = self._call("suspend")
        return self

    def __exit__(self, *_):
        if self.moved:
            self._call("resume")
        return False
