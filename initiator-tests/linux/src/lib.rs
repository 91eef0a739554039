//! Cases with the real Linux host in a virtual machine.
