"""A CuPy that is a shell: the default pool, with figures that a test sets."""

used = held = asked = 0


class _Pool:
    def used_bytes(self):
        return used

    def total_bytes(self):
        global asked
        asked += 1
        return held


def get_default_memory_pool():
    return _Pool()
