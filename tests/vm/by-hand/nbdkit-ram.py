# nbdkit's RAM disk in Python, for tools/bench: what somebody writes who is given read and write.
import nbdkit

API_VERSION = 2
disk = bytearray()


def config(key, value):
    if key != "size":
        raise RuntimeError(f"no parameter {key}")
    disk.extend(bytes(int(value)))


def open(readonly):
    return 1


def get_size(handle):
    return len(disk)


def pread(handle, buffer, offset, flags):
    buffer[:] = disk[offset:offset + len(buffer)]


def pwrite(handle, buffer, offset, flags):
    disk[offset:offset + len(buffer)] = buffer


def flush(handle, flags):
    pass
