//! DMA memory: one page-aligned mapping shared by RDMA and io_uring
