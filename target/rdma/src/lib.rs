//! The RDMA seam: traits and types of a reliable-connection provider
