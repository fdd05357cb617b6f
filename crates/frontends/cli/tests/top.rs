//! `tenon top` restores the terminal on every exit.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, write};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TIME_LIMIT: Duration = Duration::from_secs(60);

const ENTER_ALTERNATE_SCREEN: &str = "\x1b[?1049h";
const LEAVE_ALTERNATE_SCREEN: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// `tenon top` on a pseudo-terminal.
struct Session {
    controller: OwnedFd,
    terminal: File,
    child: Child,
    before: Termios,
    output: String,
}

impl Session {
    /// Starts the command and waits for its first page.
    fn start() -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tenon"))
            .args(["top", "--period", "0.1"])
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(Stdio::from(terminal.try_clone().unwrap()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut session = Self {
            controller,
            terminal,
            child,
            before,
            output: String::new(),
        };
        session.read_until("tenon top");
        let raw = tcgetattr(&session.terminal).unwrap().local_modes;
        assert!(!raw.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        assert!(session.output.contains(ENTER_ALTERNATE_SCREEN));
        assert!(!session.output.contains(LEAVE_ALTERNATE_SCREEN));
        session
    }

    fn read_until(&mut self, text: &str) {
        let start = Instant::now();
        while !self.output.contains(text) {
            assert!(start.elapsed() < TIME_LIMIT, "{:?}", self.output);
            let timeout = Timespec::try_from(Duration::from_millis(100)).unwrap();
            let mut polled = [PollFd::new(&self.controller, PollFlags::IN)];
            if poll(&mut polled, Some(&timeout)).unwrap() > 0 {
                let mut bytes = [0; 4096];
                let count = read(&self.controller, &mut bytes).unwrap();
                self.output += &String::from_utf8_lossy(&bytes[..count]);
            }
        }
    }

    /// Checks that the command has restored the terminal; returns the signal that ended it.
    fn end(mut self) -> Option<i32> {
        self.read_until(LEAVE_ALTERNATE_SCREEN);
        let status = self.child.wait().unwrap();
        let after = tcgetattr(&self.terminal).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        assert!(self.output.contains(SHOW_CURSOR));
        assert!(status.success() || status.signal().is_some(), "{status}");
        status.signal()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // After a failed assertion it still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_end_it() {
    for key in ["q", "\x1b", "\x03"] {
        let session = Session::start();
        write(&session.controller, key.as_bytes()).unwrap();
        assert_eq!(session.end(), None, "{key:?}");
    }
}

#[test]
fn signals_restore_the_terminal() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let session = Session::start();
        kill_process(Pid::from_child(&session.child), signal).unwrap();
        assert_eq!(session.end(), Some(signal.as_raw()));
    }
}
