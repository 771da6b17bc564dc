// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a host get a network stack of its own, with or without root?
//!
//! A namespace is made by a *holder*: a child that unshares, then becomes `cat` on a pipe from us. When this
//! process ends for whatever reason, the pipe closes, the holder leaves and the kernel takes the namespace away.
//! Commands join through the descriptors under `/proc/<holder>/ns`, so they keep their real process ids.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::fcntl::{open, OFlag};
use nix::mount::{mount, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, Signal};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, close, write, Pid};

use super::{pass, LabError};

/// What makes a socket: the arguments of `socket(2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketKind {
    pub(crate) domain: libc::c_int,
    pub(crate) kind: libc::c_int,
    pub(crate) protocol: libc::c_int,
}

/// The namespaces of one host, alive as long as this value.
pub(crate) struct Namespace {
    holder: Child,
    inside: Arc<Handles>,
}

/// What a process must join to be inside.
struct Handles {
    /// Present when the lab runs without root, as root of its own user namespace.
    user: Option<File>,
    mount: File,
    net: File,
}

impl Namespace {
    /// Makes the first namespace of a lab: network and mounts, in a user namespace where root is missing.
    pub(super) fn first() -> Result<Self, LabError> {
        match Self::hold(unshare_as_root, true) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let maps = IdMaps::of_this_process();
                Self::hold(move || unshare_as_user(&maps), false).map_err(LabError::not_permitted)
            }
            held => held.map_err(LabError::not_permitted),
        }
    }

    /// Makes a further network namespace that shares users and mounts with this one.
    pub(super) fn sibling(&self) -> Result<Self, LabError> {
        let base = Arc::clone(&self.inside);
        let is_root = base.user.is_none();
        let enter = move || {
            base.enter()?;
            Ok(unshare(CloneFlags::CLONE_NEWNET)?)
        };
        Self::hold(enter, is_root).map_err(LabError::not_permitted)
    }

    /// The process id that `ip link … netns` and a curious human with `nsenter -t` need.
    pub(super) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// A command that will run inside, and that dies with the thread that starts it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let inside = Arc::clone(&self.inside);
        let directory = std::env::current_dir().ok();
        let directory = directory.and_then(|d| CString::new(d.as_os_str().as_bytes()).ok());
        let mut command = Command::new(program);
        let join = move || {
            inside.enter()?;
            // Joining a mount namespace moves to its root: relative paths would change their meaning.
            if let Some(directory) = &directory {
                chdir(directory.as_c_str())?;
            }
            Ok(set_pdeathsig(Signal::SIGKILL)?)
        };
        // SAFETY: the closure only makes system calls with values prepared before the fork.
        unsafe { command.pre_exec(join) };
        command
    }

    /// A socket that belongs to this namespace for as long as it lives, whoever holds it.
    ///
    /// It is made by a child that joins and hands it over, because a process with threads cannot join a user
    /// namespace itself.
    pub(crate) fn socket(&self, kind: SocketKind) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        self.inside(move || {
            // SAFETY: a plain system call; the descriptor ends with the child.
            let made = unsafe { libc::socket(kind.domain, kind.kind, kind.protocol) };
            if made < 0 {
                return Err(io::Error::last_os_error());
            }
            pass::send_descriptor(theirs.as_raw_fd(), made)
        })?;
        pass::receive_descriptor(&ours)
    }

    /// Does `work` inside, in a child between fork and exec: system calls only, no allocation.
    pub(super) fn inside<F>(&self, work: F) -> io::Result<()>
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        let mut command = self.command("true");
        // SAFETY: the callers' closures only make system calls with values prepared before the fork.
        unsafe { command.pre_exec(work) };
        command.status().map(drop)
    }

    fn hold<F>(enter: F, is_root: bool) -> io::Result<Self>
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closures passed in only make system calls with values prepared before the fork.
        unsafe { command.pre_exec(enter) };
        let mut holder = command.spawn()?;
        match Handles::of(holder.id(), is_root) {
            Ok(inside) => Ok(Self { holder, inside: Arc::new(inside) }),
            Err(e) => {
                let _ = holder.kill().and_then(|()| holder.wait());
                Err(e)
            }
        }
    }
}

impl Drop for Namespace {
    /// Ends whatever still runs inside; only processes of this namespace can be there.
    fn drop(&mut self) {
        for pid in processes_in(self.pid()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Handles {
    fn of(pid: u32, is_root: bool) -> io::Result<Self> {
        let handle = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}"));
        Ok(Self {
            user: if is_root { None } else { Some(handle("user")?) },
            mount: handle("mnt")?,
            net: handle("net")?,
        })
    }

    /// Joins; the user namespace first, because it gives the right to join the others.
    fn enter(&self) -> io::Result<()> {
        if let Some(user) = &self.user {
            setns(user.as_fd(), CloneFlags::CLONE_NEWUSER)?;
        }
        setns(self.mount.as_fd(), CloneFlags::CLONE_NEWNS)?;
        setns(self.net.as_fd(), CloneFlags::CLONE_NEWNET)?;
        Ok(())
    }
}

/// The lines that make this process's user the root of a new user namespace.
struct IdMaps {
    users: Vec<u8>,
    groups: Vec<u8>,
}

impl IdMaps {
    fn of_this_process() -> Self {
        let map = |id: u32| format!("0 {id} 1").into_bytes();
        Self {
            users: map(nix::unistd::geteuid().as_raw()),
            groups: map(nix::unistd::getegid().as_raw()),
        }
    }
}

fn unshare_as_root() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)?;
    private_run_directory()
}

fn unshare_as_user(maps: &IdMaps) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)?;
    // Since Linux 3.19 an unprivileged process may map its group only after giving up setgroups.
    write_all(c"/proc/self/setgroups", b"deny")?;
    write_all(c"/proc/self/gid_map", &maps.groups)?;
    write_all(c"/proc/self/uid_map", &maps.users)?;
    private_run_directory()
}

/// iptables takes a lock under /run, which a user namespace cannot write outside.
fn private_run_directory() -> io::Result<()> {
    let none = None::<&CStr>;
    mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    Ok(mount(Some(c"tmpfs"), c"/run", Some(c"tmpfs"), MsFlags::empty(), none)?)
}

/// Writes without allocating: this runs between fork and exec.
fn write_all(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    let raw = open(path, OFlag::O_WRONLY, Mode::empty())?;
    // SAFETY: `raw` was opened above and is closed below.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(raw) };
    let written = write(file, bytes);
    close(raw)?;
    written?;
    Ok(())
}

/// The processes that share the network namespace of `pid`.
fn processes_in(pid: u32) -> Vec<i32> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Some(ours) = namespace(&pid.to_string()) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    names
        .filter(|name| namespace(name).as_ref() == Some(&ours))
        .filter_map(|name| name.parse().ok())
        .collect()
}
