//! SPDK's block devices: which of them are a file, a device or memory, and can be a namespace here.

use super::super::draft::{Disk, Limit, Medium};
use super::super::json::Object;
use super::super::notes::Notes;
use std::collections::BTreeMap;

/// All that a file makes, by name.
#[derive(Debug, Default)]
pub(super) struct Bdevs {
    disks: BTreeMap<String, Bdev>,
    /// PCIe addresses of NVMe controllers, whose namespaces have names that begin with theirs.
    controllers: BTreeMap<String, String>,
    /// What cannot be a namespace, and why.
    others: BTreeMap<String, String>,
    limits: BTreeMap<String, Limit>,
}

#[derive(Debug)]
struct Bdev {
    disk: Disk,
    uuid: Option<String>,
}

impl Bdevs {
    /// Takes a call that makes one, or sets something. Those that are only about SPDK itself go
    /// to `unused`.
    ///
    /// # Errors
    /// When it has not what such a call must have.
    pub(super) fn call(
        &mut self,
        method: &str,
        mut params: Object,
        notes: &mut Notes,
        unused: &mut Vec<String>,
    ) -> Result<(), String> {
        match method {
            "bdev_malloc_create" | "bdev_null_create" => {
                let (blocks, size) = (params.number("num_blocks")?, params.number("block_size")?);
                let block_size = size.unwrap_or(512);
                let bytes = blocks.unwrap_or(0).saturating_mul(block_size);
                let medium = match method {
                    "bdev_null_create" => Medium::Null(bytes),
                    _ => Medium::Ram(bytes),
                };
                self.insert(params, medium, Some(block_size), notes)?;
            }
            "bdev_aio_create" | "bdev_uring_create" => {
                let medium = Medium::Path(params.needed("filename")?);
                let block_size = params.number("block_size")?;
                // Trimming a file is always possible here.
                params.ignore(&["fallocate", "nowait"]);
                self.insert(params, medium, block_size, notes)?;
            }
            "bdev_nvme_attach_controller" => {
                let name = params.needed("name")?;
                let (kind, traddr) = (params.needed("trtype")?, params.needed("traddr")?);
                if kind.eq_ignore_ascii_case("pcie") {
                    let address = with_domain(&traddr);
                    let what = format!(
                        "{address} goes back to the kernel's driver (setup.sh reset of SPDK): here \
                         its namespaces are block devices"
                    );
                    notes.add(&name, what);
                    self.controllers.insert(name, address);
                } else {
                    let why =
                        format!("it is reached over {kind}: connect to {traddr} with nvme-cli");
                    self.others.insert(name, why);
                }
            }
            "bdev_set_qos_limit" => {
                let name = params.needed("name")?;
                let iops = params.number("rw_ios_per_sec")?.unwrap_or(0);
                let mib = params.number("rw_mbytes_per_sec")?.unwrap_or(0);
                self.limits.insert(name, Limit { iops, mib });
                params.finish(notes);
            }
            making if making.ends_with("_create") => {
                let why = format!("{making} has no counterpart");
                let name =
                    ["name", "vbdev_name", "lvol_name"].into_iter().find(|key| params.has(key));
                if let Some(name) = name.map(|key| params.text(key)).transpose()?.flatten() {
                    self.others.insert(name, why);
                } else {
                    notes.add(params.place(), why);
                }
            }
            _ => unused.push(method.to_owned()),
        }
        Ok(())
    }

    fn insert(
        &mut self,
        mut params: Object,
        medium: Medium,
        block_size: Option<u64>,
        notes: &mut Notes,
    ) -> Result<(), String> {
        let name = params.needed("name")?;
        let (uuid, read_only) = (params.text("uuid")?, params.flag("readonly")?);
        // Shapes that hosts need not know.
        params.ignore(&["physical_block_size", "optimal_io_boundary"]);
        params.finish(notes);
        let block_size = block_size.filter(|size| *size != 0);
        let disk = Disk { medium, block_size, read_only };
        self.disks.insert(name, Bdev { disk, uuid });
        Ok(())
    }

    /// What is behind a name: the disk, the UUID that hosts know it by unless the namespace has
    /// one, and how much it may serve.
    ///
    /// # Errors
    /// Why it cannot be a namespace.
    pub(super) fn find(&self, name: &str) -> Result<(Disk, Option<String>, Limit), String> {
        let limit = self.limits.get(name).copied().unwrap_or_default();
        if let Some(Bdev { disk, uuid }) = self.disks.get(name) {
            return Ok((disk.clone(), uuid.clone(), limit));
        }
        // "Nvme0n1": the namespace 1 of the controller Nvme0.
        let namespace = name
            .rsplit_once('n')
            .filter(|(_, nsid)| !nsid.is_empty() && nsid.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some((controller, nsid)) = namespace {
            if let Some(address) = self.controllers.get(controller) {
                let path = format!("/dev/disk/by-path/pci-{address}-nvme-{nsid}");
                let medium = Medium::Path(path);
                let disk = Disk { medium, block_size: None, read_only: false };
                return Ok((disk, None, limit));
            }
            if let Some(why) = self.others.get(controller) {
                return Err(why.clone());
            }
        }
        let why = self.others.get(name).cloned();
        Err(why.unwrap_or_else(|| "the file does not say what it is".to_owned()))
    }
}

/// A PCIe address as the kernel writes it: with its domain.
fn with_domain(address: &str) -> String {
    let address = address.to_lowercase().replacen('.', ":", address.matches('.').count() - 1);
    match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address,
    }
}
