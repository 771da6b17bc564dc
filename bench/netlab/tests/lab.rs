// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is the lab's network what it claims: two hosts, honest loss, wire-sized packets, nothing left behind?

mod support;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sendmsg, sockopt, ControlMessage, MsgFlags, SockaddrStorage};

use support::{answer, lab_or_skip, parameter, told, Role};

const PORT: u16 = 7700;

#[test]
fn hosts_reach_each_other_over_both_families() {
    let Some(lab) = lab_or_skip("hosts_reach_each_other") else {
        return;
    };
    for (here, there) in addresses(&lab) {
        let mut echo = Role::start(lab.host(1), "role_udp_echo", &[("BIND", there.to_string())]);
        assert_eq!(echo.answer(), "bound");
        let to = SocketAddr::new(there, PORT).to_string();
        let env = [("BIND", here.to_string()), ("TO", to)];
        assert_eq!(Role::start(lab.host(0), "role_udp_ask", &env).answer(), "hello");
    }
}

#[test]
fn loss_is_what_was_asked_for_in_each_direction() {
    let Some(lab) = lab_or_skip("loss_is_what_was_asked_for") else {
        return;
    };
    lab.set_loss(0.1).expect("loss can be set");
    for (from, to) in [(0, 1), (1, 0)] {
        let mut sink = Role::start(
            lab.host(to),
            "role_udp_count",
            &[("BIND", lab.host(to).ipv4().to_string())],
        );
        assert_eq!(sink.answer(), "bound");
        let target = SocketAddr::from((lab.host(to).ipv4(), PORT)).to_string();
        assert_eq!(
            Role::start(lab.host(from), "role_udp_flood", &[("TO", target)]).answer(),
            "5000"
        );
        sink.tell("report");
        let received: u32 = sink.answer().parse().expect("a count");
        let lost = f64::from(5000 - received) / 5000.0;
        let counted = lab.host(to).packet_count().expect("counters");
        println!("{from} -> {to}: {:.2} % of 5000 datagrams lost, {counted:?}", 100.0 * lost);
        // Six standard errors: the kernel's chance has no seed.
        assert!((lost - 0.1).abs() < 0.025, "{from} -> {to} lost {lost}");
        let unexplained = lost - counted.drop_share();
        assert!(unexplained.abs() < 0.002, "only the rule may lose packets: {unexplained}");
    }
}

#[test]
fn loss_changes_at_run_time_and_a_pulled_cable_stops_everything() {
    let Some(lab) = lab_or_skip("loss_changes_at_run_time") else {
        return;
    };
    let there = lab.host(1).ipv6();
    let mut echo = Role::start(lab.host(1), "role_udp_echo", &[("BIND", there.to_string())]);
    assert_eq!(echo.answer(), "bound");
    let ask = || {
        let to = SocketAddr::from((there, PORT)).to_string();
        let env = [("BIND", lab.host(0).ipv6().to_string()), ("TO", to)];
        Role::start(lab.host(0), "role_udp_ask", &env).answer()
    };
    assert_eq!(ask(), "hello");
    lab.set_loss(1.0).expect("loss can be set");
    assert_eq!(ask(), "silence");
    lab.set_loss(0.0).expect("loss can be set");
    assert_eq!(ask(), "hello");
    lab.unplug(1).expect("the cable can be pulled");
    assert_eq!(ask(), "silence");
    lab.plug(1).expect("the cable can be put back");
    assert_eq!(ask(), "hello");
}

#[test]
fn segmentation_offload_does_not_cross_the_switch() {
    let Some(lab) = lab_or_skip("segmentation_offload_does_not_cross") else {
        return;
    };
    lab.set_loss(0.0).expect("counters can be reset");
    let to = SocketAddr::from((lab.host(1).ipv4(), PORT)).to_string();
    assert_eq!(Role::start(lab.host(0), "role_udp_gso", &[("TO", to.clone())]).answer(), "sent");
    let udp = lab.host(1).packet_count().expect("counters");
    // A few packets of the kernel's own (multicast reports) may be among them.
    assert!(
        (400..410).contains(&udp.arrived),
        "10 super-packets of 40 segments each arrive as segments: {udp:?}"
    );

    lab.set_loss(0.0).expect("counters can be reset");
    let mut sink =
        Role::start(lab.host(1), "role_tcp_sink", &[("BIND", lab.host(1).ipv4().to_string())]);
    assert_eq!(sink.answer(), "bound");
    assert_eq!(Role::start(lab.host(0), "role_tcp_send", &[("TO", to)]).answer(), "sent");
    assert_eq!(sink.answer(), "10000000");
    let tcp = lab.host(1).packet_count().expect("counters");
    assert!(tcp.arrived_bytes / tcp.arrived <= 1500, "no packet above the MTU: {tcp:?}");
}

#[test]
fn tcp_runs_the_congestion_control_that_was_chosen() {
    let Some(lab) = lab_or_skip("tcp_runs_the_congestion_control") else {
        return;
    };
    for name in ["cubic", "reno"] {
        lab.host(0).set_tcp_congestion_control(name).expect("the kernel knows it");
        let bind = lab.host(1).ipv6();
        let mut sink = Role::start(lab.host(1), "role_tcp_sink", &[("BIND", bind.to_string())]);
        assert_eq!(sink.answer(), "bound");
        let to = SocketAddr::from((bind, PORT)).to_string();
        assert_eq!(Role::start(lab.host(0), "role_tcp_control", &[("TO", to)]).answer(), name);
    }
    let error = lab.host(0).set_tcp_congestion_control("chance").expect_err("no such control");
    assert!(error.to_string().contains("ip -batch"), "{error}");
    lab.host(0).sysctl("net.ipv4.tcp_sack", "0").expect("a kernel parameter of the host");
}

#[test]
fn nothing_is_left_when_a_lab_is_dropped() {
    let Some(lab) = lab_or_skip("nothing_is_left") else {
        return;
    };
    let link = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    let namespace = link(lab.host(0).pid()).expect("the host exists");
    let mut left = lab.host(0).command("sleep").arg("600").spawn().expect("sleep starts");
    assert_eq!(link(left.id()).expect("it runs"), namespace);
    drop(lab);
    let status = left.wait().expect("it is our child");
    assert!(!status.success(), "a process in the lab ends with it");
    let still_inside = std::fs::read_dir("/proc").expect("proc").flatten().any(|entry| {
        std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|found| found == namespace)
    });
    assert!(!still_inside, "no process holds {namespace:?} any more");
}

fn addresses(lab: &netlab::Lab) -> [(IpAddr, IpAddr); 2] {
    let (a, b) = (lab.host(0), lab.host(1));
    [(a.ipv4().into(), b.ipv4().into()), (a.ipv6().into(), b.ipv6().into())]
}

fn bind_address(port: u16) -> SocketAddr {
    SocketAddr::new(parameter("BIND").parse().expect("an address"), port)
}

#[test]
#[ignore = "a role that other tests start"]
fn role_udp_echo() {
    let socket = UdpSocket::bind(bind_address(PORT)).expect("bind");
    answer("bound");
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let _ = socket.send_to(&buffer[..length], from);
    }
}

#[test]
#[ignore = "a role that other tests start"]
fn role_udp_ask() {
    let socket = UdpSocket::bind(bind_address(0)).expect("bind");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("time-out");
    // A cable that was just put back may need a moment: the last of several tries decides.
    let heard = (0..5).any(|_| {
        let asked = socket.send_to(b"hello", parameter("TO"));
        asked.is_ok() && socket.recv(&mut [0; 64]).is_ok()
    });
    answer(if heard { "hello" } else { "silence" });
}

#[test]
#[ignore = "a role that other tests start"]
fn role_udp_count() {
    let socket = UdpSocket::bind(bind_address(PORT)).expect("bind");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("time-out");
    answer("bound");
    let mut received = 0;
    let started = Instant::now();
    while received == 0 && started.elapsed() < Duration::from_secs(20) {
        while socket.recv(&mut [0; 2048]).is_ok() {
            received += 1;
        }
    }
    told();
    answer(received);
}

#[test]
#[ignore = "a role that other tests start"]
fn role_udp_flood() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    for _ in 0..5000 {
        socket.send_to(&[7; 100], parameter("TO")).expect("send");
        // Never many at once, so that the receiver's socket buffer does not decide what is lost.
        std::thread::sleep(Duration::from_micros(50));
    }
    answer(5000);
}

#[test]
#[ignore = "a role that other tests start"]
fn role_udp_gso() {
    use std::os::fd::AsRawFd;
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    let to: SocketAddr = parameter("TO").parse().expect("an address");
    let payload = [0; 40_000];
    for _ in 0..10 {
        let io = [std::io::IoSlice::new(&payload)];
        let segments = [ControlMessage::UdpGsoSegments(&1000)];
        let to = SockaddrStorage::from(to);
        sendmsg(socket.as_raw_fd(), &io, &segments, MsgFlags::empty(), Some(&to)).expect("sendmsg");
    }
    answer("sent");
}

#[test]
#[ignore = "a role that other tests start"]
fn role_tcp_sink() {
    let listener = TcpListener::bind(bind_address(PORT)).expect("bind");
    answer("bound");
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        total += length;
    }
    answer(total);
}

#[test]
#[ignore = "a role that other tests start"]
fn role_tcp_send() {
    let mut stream = TcpStream::connect(parameter("TO")).expect("connect");
    stream.write_all(&vec![0; 10_000_000]).expect("write");
    answer("sent");
}

#[test]
#[ignore = "a role that other tests start"]
fn role_tcp_control() {
    let stream = TcpStream::connect(parameter("TO")).expect("connect");
    let control = getsockopt(&stream, sockopt::TcpCongestion).expect("its congestion control");
    answer(control.to_string_lossy().trim_end_matches('\0'));
}
