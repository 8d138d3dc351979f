/* SPDX-License-Identifier: MIT */

/* Every fault that a check can find, and where its cause most likely is. */

#include "service/check/report.h"

static const struct {
        const char *id;
        const char *hint;
} hints[] = {
        { "short-read",
          "read must return exactly `length` bytes: go on until you have them, and fill up behind the "
          "end of what you store." },
        { "long-read",
          "read must return exactly `length` bytes: cut what is too much, with byteslice and not with "
          "[] on text." },
        { "short-write",
          "write must return the number of bytes, all of them: go on after a short pwrite, and return "
          "data.bytesize." },
        { "long-write", "write must return data.bytesize, which is what it was asked to write." },
        { "wrong-type", "read returns a String, write an Integer; a negative Integer is an errno." },
        { "read-failed",
          "raise only where the data can't be had: every range inside the disk must be readable, also "
          "where nothing was ever written." },
        { "write-failed",
          "every range inside the disk must be writable; a disk that can't be written says `def "
          "read_only? = true`." },
        { "flush-failed", "flush raises only if what was written can't be made durable." },
        { "discard-failed", "discard must take any range of whole blocks; where it can't, raise Errno::EOPNOTSUPP." },
        { "write-zeroes-failed",
          "write_zeroes must take any range of whole blocks; where it can't, raise Errno::EOPNOTSUPP." },
        { "last-block", "offset + length == size is inside the disk: look for >= where > is meant." },
        { "geometry-changes",
          "size and block sizes are what they were when the disk was made: compute them once, in "
          "initialize." },
        { "resize-failed",
          "where the disk can't have that size raise Errno::ENOSPC or Errno::EOPNOTSUPP; else return the new size." },
        { "resize-loses", "what lies inside of both sizes must stay." },
        { "resize-unusable",
          "once resize has returned every byte below the new size can be read and written: look for what was computed of the "
          "size in initialize." },
        { "read-unstable",
          "the same range must read the same, in whole and in part: look for state that read changes." },
        { "misplaced-read",
          "read returns another range's bytes: look at how offset becomes a place in what you store." },
        { "shifted-read", "look at how read puts together the pieces of a request that crosses a boundary." },
        { "shifted-write", "look at how write cuts a request that crosses a boundary into pieces." },
        { "shifted", "look at how pieces are cut and joined: one starts some bytes off." },
        { "misplaced",
          "a block's data is in another block's place: look at how offset becomes a place in what you "
          "store." },
        { "offset-unit", "offset and length are bytes, not blocks." },
        { "stale",
          "a write that was acknowledged did not change what is read: look for a cache that write does "
          "not renew." },
        { "lost", "what was written reads as zeroes: look at what read does where it finds nothing." },
        { "corrupt", "what is read is not what was written: look at what happens to the bytes on the way." },
        { "write-lost",
          "write must store data. A disk that keeps nothing on purpose, as null does, says `def "
          "self.sink? = true`." },
        { "write-tail",
          "write leaves out the last block: look at the bound of the loop, or at how the length is "
          "rounded." },
        { "encoding",
          "the data is bytes: use bytesize and byteslice, open files with \"r+b\", and never encode, "
          "chomp or strip." },
        { "buffer-kept",
          "a UBLK::Buffer is good until read_into or write_from returns: copy what is needed later, with get, and keep no buffer "
          "in a variable, a queue or another thread." },
        { "buffer-unfilled",
          "fill all of the buffer before you return its size: pread returns less at the end of a file, and `fill` makes the rest zero." },
        { "payload-reused",
          "each write gets a String of its own. Keep that one, and do not copy later data into it." },
        { "payload-changed",
          "what write was given may be kept but must be written as it was: look for methods that "
          "change it (<<, replace, clear)." },
        { "write-order",
          "requests are answered in order: of two writes to the same bytes the later one counts. Look "
          "at how waiting writes are put down." },
        { "read-order", "a read must see every write that came before it, those that wait to be put down included." },
        { "flush-damages", "flush must not change what is read." },
        { "discard-stale",
          "once discard has returned the range must read as zeroes: drop it from caches too. Where it "
          "can't be, raise Errno::EOPNOTSUPP." },
        { "discard-neighbour",
          "discard goes beyond its range: it ends before offset + length, and only whole blocks may be "
          "dropped." },
        { "write-zeroes",
          "once write_zeroes has returned the range must read as zeroes. Without the method the kernel "
          "writes zeroes itself." },
        { "write-zeroes-neighbour", "write_zeroes goes beyond its range: it ends before offset + length." },
        { "flush-lost", "flush must write down all that the hook still holds (and fdatasync it) before it returns." },
        { "flush-no-sync",
          "call fdatasync (or fsync) on the file in flush: until then the data is only in the kernel's "
          "memory, and a power cut takes it." },
        { "crash-lost",
          "with recovery the kernel does not send acknowledged writes again: put each one where it "
          "outlives the process before write returns, or declare `recovery :none`." },
        { "crash-damage", "a crash must not change what nobody was writing." },
        { "reissue-lost",
          "with recovery :reissue a request that was under way is sent again: doing it twice must be "
          "as good as doing it once." },
        { "recovery-load",
          "after a crash the next process must be able to load the hook: look for lock files and for "
          "state that is half written." },
        { "load-again", "the hook must load each time, also on what it left behind itself." },
        { "reload-lost",
          "what was flushed must be found by the next target: look for state that is in the script's "
          "variables only." },
        { "class-state",
          "state belongs in instance variables: class variables, constants and globals are shared by "
          "all targets, and stay when one is built again." },
        { "thread-race",
          "with more than one queue methods run in several threads: use pread and pwrite with an "
          "offset rather than seek, and a Mutex around what is shared." },
        { "error-swallowed",
          "let the exception pass, or raise it again: the file system above must know that its data is "
          "not there." },
        { "ensure-hides-error",
          "a `return` in an `ensure` drops the exception that is on its way: take the `return` out of "
          "it." },
        { "process-ended",
          "exit!, exec, Process.daemon, an uncaught signal or a crash in native code ends the worker, "
          "and every request waits for the next one." },
        { "stuck",
          "look for a lock that is taken twice, a loop without an end, or something that never "
          "answers; give network calls a time limit." },
};

const char *check_hint(const char *id) {
        for (size_t i = 0; id && i < ELEMENTSOF(hints); i++)
                if (streq(hints[i].id, id))
                        return hints[i].hint;
        return "See ublk-hook(7).";
}
