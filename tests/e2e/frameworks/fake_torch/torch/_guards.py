import threading

_TLS = threading.local()
