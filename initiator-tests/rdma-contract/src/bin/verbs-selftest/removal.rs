//! The one check that needs help: whoever starts it removes the device when it says READY.

use rdma::{CmEvent, Device};
use rdma_contract::{Bench, Provider, take};

/// Leaves nothing of its own on the device, so that the removal ends with this program at the
/// latest: librdmacm itself keeps a removed device open until it looks for devices again, which it
/// does only where there is another one.
pub(crate) fn a_removed_device_is_let_go<P: Provider>(b: &mut Bench<P>) {
    b.listen();
    let (target, host) = b.connected(true, 4);
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
    // A receive that was in use meanwhile goes nowhere, and harms nothing.
    b.target.post_recvs(&target, 0..1);
    b.until("nothing to sleep on", |b| {
        let mut sources = Vec::new();
        for side in [&mut b.target, &mut b.host] {
            side.device.arm();
            side.device.wait_sources(&mut sources);
        }
        sources.is_empty().then_some(())
    });
}
