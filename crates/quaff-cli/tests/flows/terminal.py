"""Runs a command on a terminal of its own, ends it in some way, and prints in what state the terminal is then.

    terminal.py END EXPECTED COMMAND...

EXPECTED is text that the screen shows before the end. END is `key:TEXT`, `signal:NAME`, `stop` (^Z, continue, quit), `close`
(the terminal goes away) or `none` (the command ends by itself). The answer is one JSON object.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

WAIT_S = 30
ENTER = b"\x1b[?1049h"
LEAVE = b"\x1b[?1049l"


class Terminal:
    def __init__(self, command):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""

        def own():
            # Ignored under nohup(1), and then by the command too.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        ends = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave}
        self.child = subprocess.Popen(command, preexec_fn=own, **ends)

    def read(self, wait_s=0.05):
        """Reads what is there."""
        while select.select([self.master], [], [], wait_s)[0]:
            try:
                part = os.read(self.master, 65536)
            except OSError:
                return
            if not part:
                return
            self.seen += part

    def until(self, done):
        """Reads until something holds; returns whether it did in time."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            self.read()
            if done():
                return True
        return False

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ECHO | termios.ICANON)

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def is_stopped(self):
        with open(f"/proc/{self.child.pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"

    def end(self, how):
        kind, _, what = how.partition(":")
        if kind == "key":
            for key in what:
                os.write(self.master, key.encode())
                self.read()
        elif kind == "signal":
            self.child.send_signal(getattr(signal, "SIG" + what))
        elif kind == "stop":
            os.write(self.master, b"\x1a")
            stopped = self.until(lambda: self.is_stopped() and self.is_restored())
            self.seen = b""
            self.child.send_signal(signal.SIGCONT)
            again = self.until(lambda: self.is_raw() and ENTER in self.seen)
            os.write(self.master, b"q")
            return {"stopped": stopped, "again": again}
        return {}


def close(terminal):
    """The window of the terminal is closed: the process has to end, whatever it can still write."""
    os.close(terminal.slave)
    os.close(terminal.master)
    try:
        return {"code": terminal.child.wait(WAIT_S)}
    except subprocess.TimeoutExpired:
        terminal.child.kill()
        return {"code": None}


def main():
    how, expected, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
    terminal = Terminal(command)
    shown = terminal.until(lambda: ENTER in terminal.seen and expected in terminal.seen)
    answer = {"shown": shown, "raw": terminal.is_raw()}
    if how == "close":
        answer.update(close(terminal))
    else:
        answer.update(terminal.end(how))
        over = terminal.until(lambda: terminal.child.poll() is not None)
        if not over:
            terminal.child.kill()
        terminal.read()
        answer["code"] = terminal.child.returncode if over else None
        answer["restored"] = terminal.is_restored()
        answer["left"] = terminal.seen.rfind(LEAVE) > terminal.seen.rfind(ENTER)
        answer["after"] = terminal.seen[terminal.seen.rfind(LEAVE) :].decode(errors="replace")
    answer["text"] = terminal.seen.decode(errors="replace")
    print(json.dumps(answer))


main()
