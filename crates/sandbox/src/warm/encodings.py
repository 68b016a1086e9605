"""Read by Python in the place of its own `encodings`, the first module that it loads: has it wait before `site`.

So nothing that `site` loads, no `.pth` file and no `usercustomize`, is executed before the run. Nothing of this file is left
when the script begins.
"""

import posix
import sys


def _can_wait():
    """Returns whether all that is loaded ahead can be changed by root alone, wherever a virtual environment says that it is."""
    # In a user namespace files of root look like those of others. hookjail has examined this directory.
    examined = posix.environ.get(b"HOOKJAIL_EXAMINED", b"").decode() + "/"
    for path in sys.path[1:]:
        while path:
            try:
                found = posix.stat(path)
                way = path + "/"
                is_examined = way.startswith(examined) or examined.startswith(way)
                is_roots = found.st_uid == 0 or found.st_uid == 65534 and is_examined
                if not is_roots or found.st_mode & 0o022:
                    return False
            except OSError:
                pass
            path = path.rpartition("/")[0]
    return True


def _load_ahead():
    """Loads what the script is going to import, and returns the names of all that was loaded. A file beside the script comes first."""
    import os

    before = set(sys.modules)
    try:
        shadows = {name.partition(".")[0] for name in os.listdir(os.path.dirname(sys.argv[0]))}
    except OSError:
        return set()
    for name in os.environ.get("HOOKJAIL_WARM", "").split():
        if name.partition(".")[0] not in shadows:
            __import__(name)
    return set(sys.modules) - before


def _wait():
    """Waits for the run's variables, and for the script to be in its place."""
    import gc
    import os

    # Objects that are loaded so far are no garbage: the collector need not scan them when the script ends.
    gc.collect()
    gc.freeze()
    os.write(1, b"\x06")

    def read(size):
        data = b""
        while len(data) < size:
            piece = os.read(0, size - len(data))
            if not piece:
                os._exit(125)
            data += piece
        return data

    directory, *lines = read(int(read(16), 16)).split(b"\0")
    if directory:
        os.chdir(directory)
    # All of them anew, so that their order is that of any other start.
    os.environb.clear()
    os.environb.update(line.split(b"=", 1) for line in lines if line)


class _Site:
    """Finder and loader of `site`: waits, has Python's own `site` loaded, and hands that out."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "site":
            return None
        sys.meta_path.remove(cls)
        loaded = _load_ahead()
        before = sys.meta_path[:], sys.path[:]
        _wait()
        import site

        cls.loaded, cls.spec = sys.modules.pop(name), site.__spec__
        if before != (sys.meta_path, sys.path[: len(before[1])]):
            _forget_shadowed(loaded)
        return type(cls.spec)(name, cls)

    @classmethod
    def create_module(cls, spec):
        return cls.loaded

    @classmethod
    def exec_module(cls, module):
        module.__spec__ = cls.spec


def _forget_shadowed(loaded):
    """Forgets what was loaded ahead, where `site` has made another module come first."""
    from importlib._bootstrap import _find_spec

    for name in loaded:
        if "." not in name:
            spec = _find_spec(name, None)
            if spec is None or spec.origin != sys.modules[name].__spec__.origin:
                for forgotten in loaded:
                    del sys.modules[forgotten]
                return


if not _can_wait():
    posix._exit(125)
_own = __path__[0].rpartition("/")[0]
sys.path.remove(_own)
sys.path_importer_cache.pop(_own, None)
sys.meta_path.insert(0, _Site)
del sys.modules["encodings"]
import encodings  # noqa: E402, F401
