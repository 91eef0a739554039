//! The one check that needs help: whoever starts it removes the device when it says READY, and brings
//! it back when it says GONE.

use rdma::{CmEvent, Device};
use rdma_contract::{Bench, Provider, SHARED_RECV_DEPTH, open_files, take};

/// The caller's script takes the device away after "READY" and brings it back after "GONE".
pub(crate) fn a_removed_device_comes_back<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(true, 4);
    let files = open_files();
    println!("READY");
    b.until("the listener to be down", |b| {
        take(&mut b.target.events, |e| matches!(e, CmEvent::ListenerDown { .. }).then_some(()))
    });
    b.ended(true, &target);
    b.ended(false, &host);
    b.target.device.fail(target.qp());
    b.host.device.fail(host.qp());
    // The last connection of a removed device gives the shared receives back too.
    b.next_wcs(true, 4);
    b.next_wcs(false, 4);
    b.target.free(&target);
    b.host.free(&host);
    b.target.device.arm();
    b.host.device.arm();
    // A receive that was in use meanwhile goes nowhere, and harms nothing.
    b.target.post_recvs(&target, 0..1);
    println!("GONE");
    b.until("the listener to be up", |b| {
        take(&mut b.target.events, |e| matches!(e, CmEvent::ListenerUp { .. }).then_some(()))
    });
    let (target, host) = b.connected(true, 4);
    assert_eq!(target.at.recv_queue.depth, SHARED_RECV_DEPTH, "a new queue, empty");
    assert_eq!(open_files(), files, "descriptors of the removed device are closed");
    b.tear_down(&target, &host, (0, 4));
}
