//! Faults planted on purpose.

use super::Core;
use backing::BlockIo;
use rdma::Device;

/// A fault of a core. It happens once, at the next chance, unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// A buffer goes back to the pool twice: the pool's own assertion must see it.
    BufferFreedTwice,
    /// A READ credit never comes back: [`Core::audit`] must see it.
    ReadCreditLeaked,
    /// Nothing is ever held back for a fused pair: what hosts read must show it.
    ClaimsIgnored,
}

impl<D: Device, B: BlockIo> Core<D, B> {
    /// Plants a fault.
    pub fn plant(&mut self, plant: Plant) {
        self.plant = Some(plant);
    }

    /// Whether the planted fault is this one; it is gone afterwards.
    pub(super) fn takes_effect(&mut self, plant: Plant) -> bool {
        self.plant.take_if(|planted| *planted == plant).is_some()
    }
}
