//! A client with a controller that is enabled, and one I/O queue.

use crate::{Buffer, Client, Target};
use initiator::{BareQueue, commands};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, ConnectResponse, PropertyGet,
    PropertySet, PropertySize,
};
use nvme_spec_types::property::{CC_OFFSET, CSTS_OFFSET, Cc, Csts};
use nvme_spec_types::{Command, Completion, Nqn, SglDescriptor, StatusCode, ZeroBased};

/// Our name.
pub(crate) const HOSTNQN: &str =
    "nqn.2014-08.org.nvmexpress:uuid:6f1b2d0c-93f4-4a55-8d0e-5a7cf0de4421";
/// Our identifier.
const HOSTID: [u8; 16] = [0x5a; 16];
/// Entries of the queues of a session.
const ENTRIES: u16 = 32;

/// A controller in use. See the [module](self).
pub struct Session {
    /// The host.
    pub client: Client,
    /// The admin queue.
    pub admin: BareQueue,
    /// I/O queue 1.
    pub io: BareQueue,
    /// The controller.
    pub cntlid: u16,
    /// Largest transfer in bytes, by MDTS.
    pub max_transfer: u32,
    /// In-capsule data of I/O queues in bytes, by IOCCSZ.
    pub in_capsule: u32,
    /// Blocks of namespace 1, by NSZE.
    pub blocks: u64,
    /// Bytes of a block of namespace 1.
    pub block_len: u32,
}

impl Session {
    /// Connects, enables the controller and makes the I/O queue.
    pub fn new(target: &Target) -> Session {
        let mut client = Client::new(target);
        let (admin, cntlid) = Session::controller(&mut client, target, 0);
        Session::enable(&mut client, admin);
        let mut session = Session {
            client,
            admin,
            io: admin,
            cntlid,
            max_transfer: 0,
            in_capsule: 0,
            blocks: 0,
            block_len: 0,
        };
        let identity = session.identify(1, 0);
        let le32 = |data: &[u8], at: usize| {
            u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"))
        };
        session.max_transfer = 4096 << identity[77];
        session.in_capsule = le32(&identity, 1792) * 16 - 64;
        let namespace = session.identify(0, 1);
        session.blocks = u64::from(le32(&namespace, 0)) | u64::from(le32(&namespace, 4)) << 32;
        session.block_len = 1 << namespace[128 + usize::from(namespace[26] & 15) * 4 + 2];
        session.io = session.join(1).expect("an I/O queue");
        session
    }

    /// An admin queue with a controller that is not enabled.
    pub fn controller(client: &mut Client, target: &Target, kato_ms: u32) -> (BareQueue, u16) {
        let admin = client.open(0, ENTRIES, 0).expect("an admin queue");
        let data = connect_data(target.subnqn(), CNTLID_DYNAMIC);
        let command = Connect { kato_ms, ..connect(0) };
        let completion = send_connect(client, admin, command, &data);
        assert!(completion.status.is_success(), "Connect: {}", completion.status);
        (admin, ConnectResponse::from_dw0(completion.dw0).cntlid)
    }

    /// Sets CC.EN and checks that the controller is ready.
    pub fn enable(client: &mut Client, admin: BareQueue) {
        let cc = Cc::default().with_en(true).with_iosqes(6).with_iocqes(4);
        assert!(set_property(client, admin, CC_OFFSET, cc.0).status.is_success());
        let csts = get_property(client, admin, CSTS_OFFSET, PropertySize::Four);
        assert!(Csts(csts.dw0).rdy(), "the controller is not ready: {csts:?}");
    }

    /// Makes I/O queue `qid`.
    ///
    /// # Errors
    /// The status of a Connect that was refused.
    pub fn join(&mut self, qid: u16) -> Result<BareQueue, Completion> {
        let subnqn = self.subnqn();
        let queue = self.client.open(qid, ENTRIES, self.cntlid).expect("a connection");
        let data = connect_data(subnqn, self.cntlid);
        let completion = send_connect(&mut self.client, queue, connect(qid), &data);
        if completion.status.is_success() { Ok(queue) } else { Err(completion) }
    }

    /// The subsystem, by what the controller says.
    fn subnqn(&mut self) -> Nqn {
        Nqn::from_field(&self.identify(1, 0)[768..1024]).expect("SUBNQN")
    }

    /// Identify data.
    pub fn identify(&mut self, cns: u8, nsid: u32) -> Vec<u8> {
        let (completion, data) = self.admin_in(commands::identify(cns, nsid), 4096);
        assert!(completion.status.is_success(), "Identify {cns}: {}", completion.status);
        data
    }

    /// An admin command with data from the controller.
    pub fn admin_in(&mut self, mut command: Command, len: u32) -> (Completion, Vec<u8>) {
        let buffer = self.client.buffer(self.admin, len, 0);
        command.set_sgl1(buffer.sgl());
        let completion = self.client.call(self.admin, command);
        let data = self.client.read(buffer);
        self.client.take_back(self.admin, buffer);
        (completion, data)
    }

    /// An admin command without data.
    pub fn admin(&mut self, command: Command) -> Completion {
        self.client.call(self.admin, command)
    }

    /// An I/O command with its data in `buffer`.
    pub fn io(&mut self, mut command: Command, buffer: Buffer) -> Completion {
        command.set_sgl1(buffer.sgl());
        self.client.call(self.io, command)
    }

    /// An I/O command with that descriptor, and bytes behind it in the capsule.
    pub fn io_sgl(&mut self, mut command: Command, sgl: SglDescriptor, tail: &[u8]) -> Completion {
        command.set_sgl1(sgl);
        self.client.call_with(self.io, command, tail)
    }

    /// Memory for an I/O command.
    pub fn buffer(&mut self, len: u32, fill: u8) -> Buffer {
        self.client.buffer(self.io, len, fill)
    }

    /// Reads blocks of namespace 1 and expects success.
    pub fn read_blocks(&mut self, slba: u64, blocks: u32) -> Vec<u8> {
        let buffer = self.buffer(blocks * self.block_len, 0xee);
        let completion = self.io(commands::read(1, slba, blocks, false), buffer);
        assert!(completion.status.is_success(), "Read: {}", completion.status);
        let data = self.client.read(buffer);
        self.client.take_back(self.io, buffer);
        data
    }

    /// Writes blocks of one byte to namespace 1 and expects success.
    pub fn fill_blocks(&mut self, slba: u64, blocks: u32, byte: u8) {
        let buffer = self.buffer(blocks * self.block_len, byte);
        let completion = self.io(commands::write(1, slba, blocks, false), buffer);
        assert!(completion.status.is_success(), "Write: {}", completion.status);
        self.client.take_back(self.io, buffer);
    }

    /// Both queues still serve: a Read and an Identify succeed.
    pub fn assert_alive(&mut self) {
        self.read_blocks(0, 1);
        self.identify(1, 0);
    }
}

/// Connect of a queue with the sizes of a session.
pub fn connect(qid: u16) -> Connect {
    Connect {
        cid: 0,
        sgl1: SglDescriptor::NO_DATA,
        recfmt: 0,
        qid,
        sqsize: ZeroBased::<u16>::saturating(u32::from(ENTRIES)),
        cattr: ConnectAttributes::empty(),
        kato_ms: 0,
    }
}

/// Data of Connect from this host.
pub fn connect_data(subnqn: Nqn, cntlid: u16) -> Vec<u8> {
    let hostnqn = Nqn::new(HOSTNQN).expect("a name");
    ConnectData::new(HOSTID, cntlid, &subnqn, &hostnqn).to_bytes().to_vec()
}

/// Sends a Connect with its data in keyed memory.
pub fn send_connect(
    client: &mut Client,
    queue: BareQueue,
    connect: Connect,
    data: &[u8],
) -> Completion {
    let buffer = client.buffer(queue, data.len() as u32, 0);
    client.write(buffer, data);
    let connect = Connect { sgl1: buffer.sgl(), ..connect };
    client.call(queue, connect.to_command())
}

/// Property Set of four bytes.
pub fn set_property(client: &mut Client, admin: BareQueue, offset: u32, value: u32) -> Completion {
    let (size, value) = (PropertySize::Four, u64::from(value));
    client.call(admin, PropertySet { cid: 0, size, offset, value }.to_command())
}

/// Property Get.
pub fn get_property(
    client: &mut Client,
    admin: BareQueue,
    offset: u32,
    size: PropertySize,
) -> Completion {
    client.call(admin, PropertyGet { cid: 0, size, offset }.to_command())
}

/// Asserts the code of a completion.
#[track_caller]
pub fn assert_code(completion: &Completion, code: StatusCode) {
    assert_eq!(completion.status.code, code, "{completion:?}");
}
