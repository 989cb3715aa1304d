"""_signals - tells exceptions that the program's signal handlers raise from failures of our own.

Python runs a signal handler within whatever code the thread is in, also ours.  What the handler raises (a timeout, an interrupt) is the
program's and must reach it, while a failure of ours must not.  A handler is called with the frame that it interrupts, so its own frame has
that as a variable; a trace function's, too.
"""


def raised(error):
    """Whether ERROR comes from a signal handler of the program's, or from its trace function.

    The frame that caught it is no handler's.  It has the error in a variable, and before CPython 3.13 a look at a frame's variables keeps
    them with the frame: both would hold each other, and all of the program's that the variables name, until the next collection.
    """
    at = error.__traceback__ and error.__traceback__.tb_next
    while at is not None:
        frame = at.tb_frame
        if frame.f_back is not None:
            for value in tuple(frame.f_locals.values()):
                if value is frame.f_back or type(value) is tuple and any(part is frame.f_back for part in value):
                    return True
        at = at.tb_next
    return False
