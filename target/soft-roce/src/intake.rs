//! What one thread takes in: datagrams of its sockets, checked and sorted.
//!
//! A datagram that is undamaged goes to whoever asks here; or, if it came in one message with
//! others and is for another socket of the group, to that one's thread (see `exchange`). What
//! others received for this thread comes along.

use crate::check::Check;
use crate::exchange::Handed;
use crate::socket::{Buffers, RECV_BATCH, Socket, addressee};
use std::net::IpAddr;

/// A receiving thread's memory and counts.
#[derive(Debug)]
pub(crate) struct Intake {
    buffers: Buffers,
    check: Check,
    /// Packets that were received here and are for another thread.
    pub(crate) passed_on: u64,
    /// Packets for another thread that were lost, since that one did not keep up.
    pub(crate) overrun: u64,
}

impl Intake {
    pub(crate) fn new() -> Intake {
        let (buffers, check) = (Buffers::new(), Check::default());
        Intake { buffers, check, passed_on: 0, overrun: 0 }
    }

    /// Packets whose integrity check was wrong.
    pub(crate) fn damaged(&self) -> u64 {
        self.check.damaged
    }

    /// Takes in what is there for a socket's thread, with at most `calls` of the system, and hands
    /// each packet over with where it came from and whether it met congestion. Returns whether that
    /// is all there is.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        calls: usize,
        mut take: impl FnMut(IpAddr, bool, &[u8]),
    ) -> bool {
        let (local, seat) = (socket.local(), socket.seat());
        let Intake { buffers, check, passed_on, overrun } = self;
        let mut all = false;
        for _ in 0..calls {
            let count = socket.receive(buffers, |from, index, marked, datagram| {
                if !check.is_right(from, local, index, datagram) {
                    return;
                }
                let from = from.ip();
                if let Some(seat) = seat
                    && let Some(to) = addressee(datagram)
                    && to != seat.own()
                {
                    match seat.hand_over(to, from, marked, datagram) {
                        Handed::Over => return *passed_on += 1,
                        Handed::Lost => return *overrun += 1,
                        Handed::NoPlace => {} // for nobody here: counted by whoever has it
                    }
                }
                take(from, marked, datagram);
            });
            if count < RECV_BATCH {
                all = true;
                break;
            }
        }
        if let Some(seat) = seat {
            seat.collect(take);
        }
        all
    }
}
