"""_recording - a recording read from Python: vramscope.open("run.db").

    with vramscope.open("run.db") as run:
        run.tables                                # names of its tables and views
        run["phase_peak"]                         # all rows of one
        run.sql("SELECT * FROM live_at_peak WHERE size_bytes > ?", (1 << 20,))
        run.complete                              # whether its end is in it

A table is a pandas frame where pandas can be imported, else a list of dicts, one a row.  What is unknown (NULL in SQL)
is <NA> or None, never 0: columns of whole numbers have the type Int64 in a frame, which has room for it.  Sizes are in
bytes, times in nanoseconds since the run's start; vramscope.5 and the schema explain the columns.

The file is opened for reading alone, and one that is still being written can be read: each question sees one state of it.
Nothing is completed here.  Where the process was killed, `vramscope recover run.db` puts in what its journal still has.
"""

import os
import sqlite3
import urllib.parse
import warnings


class Recording:
    """A recording that is open for reading; close() or a `with` closes it.  It belongs to the thread that opened it."""

    def __init__(self, path, pandas=None):
        self.path = os.fspath(path)
        self._pandas = _find_pandas(pandas)
        self._connection = _connect(self.path)
        self._connection.row_factory = sqlite3.Row
        try:
            self._meta = self._connection.execute("SELECT * FROM meta").fetchall()
        except sqlite3.Error as error:
            self.close()
            raise ValueError(f"{self.path} is no recording of vramscope: {error}: vramscope run -o run.db -- python train.py writes one") from None
        if not self.complete:
            warnings.warn(
                f"{self.path} is not known to be complete: its process runs, or was killed (then: vramscope recover {self.path})",
                stacklevel=3,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<vramscope recording {self.path!r}>"

    def __getitem__(self, table):
        if table not in self.tables:
            raise KeyError(f"{self.path} has no table or view {table!r}: .tables names them")
        quoted = table.replace('"', '""')
        return self.sql(f'SELECT * FROM "{quoted}"')

    @property
    def tables(self):
        """Names of the tables and views, in alphabetical order."""
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        return [row[0] for row in self._connection.execute(query)]

    @property
    def meta(self):
        """What is known of the recording as a whole: a dict of texts and numbers, of the first process where files were joined."""
        return {row["key"]: row["value"] for row in reversed(self._meta)}

    @property
    def complete(self):
        """Whether the end of the recording is in the file, of each process in it: written by that, or put in by `recover`."""
        ended = {_process(row) for row in self._meta if row["key"] in ("clean_end", "journal_merged") and _is_true(row["value"])}
        return ended == {_process(row) for row in self._meta} - {0}  # what is said of the file, and of no process

    def sql(self, query, parameters=()):
        """What QUERY gives: a frame, or a list of dicts."""
        cursor = self._connection.execute(query, parameters)
        names = [column[0] for column in cursor.description or ()]
        rows = cursor.fetchall()
        if self._pandas is None:
            return [dict(zip(names, row)) for row in rows]
        frame = self._pandas.DataFrame.from_records([tuple(row) for row in rows], columns=names)
        return frame.convert_dtypes(convert_string=False, convert_boolean=False, convert_floating=False)

    def close(self):
        self._connection.close()


def _process(row):
    return row["process"] if "process" in row.keys() else 1


def _is_true(value):
    return value not in (None, "", 0, "0")


def _find_pandas(wanted):
    if wanted is not None and not wanted:
        return None
    try:
        import pandas
    except ImportError:
        if wanted:
            raise
        return None
    return pandas


def _has_no_room(error):
    """Whether ERROR is SQLITE_CANTOPEN or SQLITE_READONLY."""
    code = getattr(error, "sqlite_errorcode", None)  # Python 3.11
    if code is None:
        return any(text in str(error) for text in ("unable to open", "readonly"))
    return code & 0xFF in (14, 8)


def _connect(path):
    """A connection that cannot write.  A directory that nobody may write to has no room for SQLite's index of a log: where
    there is no log either, and no journal of a change that was not finished, the file is read as it lies.  One that somebody
    has locked is not: it may be half written."""
    if not os.path.exists(path):
        raise FileNotFoundError(2, "no such recording: vramscope run -o run.db -- python train.py writes one", path)
    name = "file:" + urllib.parse.quote(os.path.abspath(path))
    connection = sqlite3.connect(name + "?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if not _has_no_room(error) or any(os.path.exists(path + end) for end in ("-wal", "-journal")):
            raise
        connection = sqlite3.connect(name + "?mode=ro&immutable=1", uri=True)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"{path} is no recording of vramscope: {error}: vramscope run -o run.db -- python train.py writes one") from None
    return connection
