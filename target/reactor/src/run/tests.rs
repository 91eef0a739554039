use super::mailbox::mailbox;
use super::sleep::sleep;
use super::{Clock, PollMode, leave_to_cores};
use rustix::thread::sched_getaffinity;
use std::time::{Duration, Instant};

#[test]
fn a_message_wakes_a_sleeping_receiver() {
    let (postbox, inbox) = mailbox().unwrap();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        postbox.send(7);
    });
    let clock = Clock::start();
    let started = Instant::now();
    inbox.prepare_sleep();
    assert!(inbox.is_empty());
    let now = clock.now();
    sleep(&[inbox.wait_source()], now, Some(now + Duration::from_secs(10)));
    inbox.awake();
    assert_eq!(inbox.try_recv(), Some(7));
    assert!(started.elapsed() < Duration::from_secs(5), "slept through the bell");
    sender.join().unwrap();
}

#[test]
fn a_bell_that_was_heard_does_not_ring_again() {
    let (postbox, inbox) = mailbox().unwrap();
    inbox.prepare_sleep();
    postbox.send(1);
    let started = Instant::now();
    sleep(&[inbox.wait_source()], Duration::ZERO, Some(Duration::from_secs(10)));
    assert!(started.elapsed() < Duration::from_secs(5), "slept through the bell");
    inbox.awake();
    assert_eq!(inbox.try_recv(), Some(1));
    let started = Instant::now();
    inbox.prepare_sleep();
    sleep(&[inbox.wait_source()], Duration::ZERO, Some(Duration::from_millis(80)));
    assert!(started.elapsed() >= Duration::from_millis(70), "woken by an old ring");
}

#[test]
fn an_awake_receiver_is_not_rung() {
    let (postbox, inbox) = mailbox().unwrap();
    postbox.send(1);
    let started = Instant::now();
    sleep(&[inbox.wait_source()], Duration::ZERO, Some(Duration::from_millis(80)));
    assert!(started.elapsed() >= Duration::from_millis(70));
    assert_eq!(inbox.try_recv(), Some(1));
}

#[test]
fn no_message_is_lost_between_looking_and_sleeping() {
    let (postbox, inbox) = mailbox().unwrap();
    const COUNT: u32 = 20_000;
    let sender = std::thread::spawn(move || {
        for n in 0..COUNT {
            postbox.send(n);
            if n % 7 == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    while expected < COUNT {
        while let Some(n) = inbox.try_recv() {
            assert_eq!(n, expected);
            expected += 1;
        }
        if expected == COUNT {
            break;
        }
        inbox.prepare_sleep();
        if inbox.is_empty() {
            let started = Instant::now();
            let until = Some(Duration::from_secs(20));
            sleep(&[inbox.wait_source()], Duration::ZERO, until);
            assert!(started.elapsed() < Duration::from_secs(15), "a wake-up was lost");
        }
        inbox.awake();
    }
    sender.join().unwrap();
}

#[test]
fn modes_differ_in_when_they_sleep() {
    let spin = Duration::from_micros(50);
    let adaptive = PollMode::Adaptive { spin };
    assert!(!adaptive.should_sleep(Duration::from_micros(49), false));
    assert!(adaptive.should_sleep(spin, false));
    assert!(!adaptive.should_sleep(Duration::from_micros(199), true), "a disk is to answer");
    assert!(adaptive.should_sleep(Duration::from_micros(200), true), "it takes its time");
    assert!(!PollMode::Always.should_sleep(Duration::from_secs(9), false));
    assert!(PollMode::Interrupt.should_sleep(Duration::ZERO, true));
}

#[test]
fn a_thread_leaves_cpus_to_cores_unless_it_would_have_none() {
    // On a thread of its own: what it does to itself stays there.
    let seen = std::thread::spawn(|| {
        let before = sched_getaffinity(None).unwrap();
        let allowed: Vec<usize> = (0..1024).filter(|&cpu| before.is_set(cpu)).collect();
        leave_to_cores(&allowed);
        assert_eq!(sched_getaffinity(None).unwrap(), before, "it has to run somewhere");
        leave_to_cores(&allowed[1..]);
        let after = sched_getaffinity(None).unwrap();
        let handed_on = std::thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap();
        (allowed[0], after, handed_on)
    });
    let (first, after, handed_on) = seen.join().unwrap();
    assert!(after.count() == 1 && after.is_set(first));
    assert_eq!(handed_on, after);
}
