//! A userspace NVMe-oF host over the RDMA seam
