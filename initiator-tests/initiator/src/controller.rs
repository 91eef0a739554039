//! From nothing to a controller in use, as a function of events.
//!
//! # Contract
//! The driver feeds what happened (a queue's connection came up, a command of ours ended, time
//! passed) and carries out the [`Step`]s that come back, in order. The way is: admin queue, Connect,
//! CAP and VS, CC.EN, wait for CSTS.RDY, Identify Controller, Number of Queues, Asynchronous Event
//! Configuration, I/O queues with their Connects, namespaces. From then on it keeps the controller
//! alive and its event requests posted. When anything is refused it asks for [`Step::Fail`] and is
//! of no more use until [`Controller::start`].

use crate::commands;
use crate::identify::{ControllerInfo, IDENTIFY_LEN, NamespaceInfo, namespace_ids};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, ConnectLocation, ConnectResponse,
    PropertyGet, PropertySet, PropertySize,
};
use nvme_spec_types::property::SHST_COMPLETE;
use nvme_spec_types::property::{CAP_OFFSET, CC_OFFSET, CSTS_OFFSET, Cap, Cc, Csts, VS_OFFSET};
use nvme_spec_types::{Command, Completion, Nqn, SglDescriptor, ZeroBased};
use std::time::Duration;

/// Feature ids (NVMe Base 2.1, 5.1.25.1).
const FEATURE_NUMBER_OF_QUEUES: u8 = 0x07;
const FEATURE_ASYNC_EVENTS: u8 = 0x0b;
/// Namespace attribute notices (AEC bit 8).
const AEC_NAMESPACE_CHANGED: u32 = 1 << 8;
/// How long to wait between two looks at CSTS.
const READY_POLL: Duration = Duration::from_millis(1);

/// What to ask of a target.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// The subsystem.
    pub subnqn: Nqn,
    /// Who we are.
    pub hostnqn: Nqn,
    /// Host identifier.
    pub hostid: [u8; 16],
    /// Entries of the admin queue, 2 to 32.
    pub admin_entries: u16,
    /// I/O queues wanted; the target may grant fewer. 0 for a controller used for admin only.
    pub io_queues: u16,
    /// Entries of each I/O queue, 2 to 4096; cut to what the target takes.
    pub io_entries: u16,
    /// Keep alive timeout in milliseconds; 0 for none.
    pub kato_ms: u32,
    /// Whether responses carry the submission queue head.
    pub flow_control: bool,
    /// Asynchronous Event Requests to keep posted.
    pub async_events: u16,
}

/// What a command of ours is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Connect of a queue.
    Connect(u16),
    /// Property Get of CAP.
    Capabilities,
    /// Property Get of VS.
    Version,
    /// Property Set of CC.
    Configure,
    /// Property Get of CSTS.
    Status,
    /// Identify Controller.
    Identify,
    /// Set Features, Number of Queues.
    QueueCount,
    /// Set Features, Asynchronous Event Configuration.
    EventConfig,
    /// Identify, active namespace list.
    NamespaceList,
    /// Identify Namespace.
    Namespace(u32),
    /// Asynchronous Event Request.
    AsyncEvent,
    /// Keep Alive.
    KeepAlive,
}

/// Data of a command of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlData {
    /// None.
    None,
    /// These bytes for the controller.
    ToController(Vec<u8>),
    /// So many bytes from the controller.
    FromController(u32),
}

/// What the controller asks of its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a connection for a queue; answered by [`Controller::on_link_up`].
    Open {
        /// Which queue.
        qid: u16,
        /// Its entries.
        entries: u16,
        /// The controller it is of; 0 for the admin queue.
        cntlid: u16,
        /// In-capsule data that the target takes on it, in bytes.
        in_capsule: u32,
    },
    /// Send a command; answered by [`Controller::on_done`].
    Send {
        /// On which queue.
        qid: u16,
        /// What for.
        purpose: Purpose,
        /// The command without identifier and descriptor.
        command: Command,
        /// Its data.
        data: ControlData,
    },
    /// The controller is in use.
    Live,
    /// An asynchronous event came: dword 0 of its completion.
    Event(u32),
    /// It is reset: its I/O queues end. [`Controller::enable_again`] is due when they are gone.
    Disabled,
    /// The controller was left in this way: end the connections.
    Left(Goodbye),
    /// It cannot be used: end the connections.
    Fail(String),
}

/// How to leave a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    /// Ask for a shutdown and wait until it is complete (CC.SHN, CSTS.SHST).
    Shutdown,
    /// Disable it and wait until it is not ready (CC.EN): what a reset begins with.
    Disable,
    /// Just end the connections.
    Abrupt,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Off,
    /// Each step until the I/O queues awaits exactly one thing, named by its purpose.
    Await(Purpose),
    AwaitAdminLink,
    AwaitReady {
        look_again: Option<Duration>,
    },
    AwaitIoQueues {
        to_connect: u16,
    },
    Live,
    Leaving {
        goodbye: Goodbye,
        look_again: Option<Duration>,
    },
    /// Awaits that the controller is not ready.
    Resetting {
        look_again: Option<Duration>,
    },
    /// Reset, and not enabled yet.
    Disabled,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    phase: Phase,
    cntlid: u16,
    cap: Cap,
    info: ControllerInfo,
    io_queues: u16,
    io_entries: u16,
    /// Namespaces to identify, last first.
    to_identify: Vec<u32>,
    namespaces: Vec<NamespaceInfo>,
    keep_alive_at: Option<Duration>,
}

impl Controller {
    /// Not started.
    pub fn new(config: ControllerConfig) -> Controller {
        Controller {
            config,
            phase: Phase::Off,
            cntlid: 0,
            cap: Cap::default(),
            info: ControllerInfo::default(),
            io_queues: 0,
            io_entries: 0,
            to_identify: Vec::new(),
            namespaces: Vec::new(),
            keep_alive_at: None,
        }
    }

    /// What Identify Controller told, once it has.
    pub fn info(&self) -> &ControllerInfo {
        &self.info
    }

    /// Namespaces found, by rising nsid.
    pub fn namespaces(&self) -> &[NamespaceInfo] {
        &self.namespaces
    }

    /// I/O queues granted.
    pub fn io_queues(&self) -> u16 {
        self.io_queues
    }

    /// Controller id given by Connect.
    pub fn cntlid(&self) -> u16 {
        self.cntlid
    }

    /// Whether commands of a user are taken.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Begins from the start.
    pub fn start(&mut self, out: &mut Vec<Step>) {
        *self = Controller::new(self.config.clone());
        self.phase = Phase::AwaitAdminLink;
        let entries = self.config.admin_entries;
        out.push(Step::Open { qid: 0, entries, cntlid: 0, in_capsule: 0 });
    }

    /// Forgets everything: the connections are gone.
    pub fn stop(&mut self) {
        self.phase = Phase::Off;
        self.keep_alive_at = None;
    }

    /// Leaves the controller: [`Step::Left`] comes when it is done.
    pub fn leave(&mut self, goodbye: Goodbye, out: &mut Vec<Step>) {
        let cc = match goodbye {
            Goodbye::Shutdown if self.is_live() => self.enabled().with_shn(1),
            Goodbye::Disable if self.is_live() => self.enabled().with_en(false),
            _ => {
                self.phase = Phase::Off;
                return out.push(Step::Left(Goodbye::Abrupt));
            }
        };
        self.phase = Phase::Leaving { goodbye, look_again: None };
        self.keep_alive_at = None;
        out.push(set_cc(cc));
    }

    /// Resets the controller in place: [`Step::Disabled`] comes when it is not ready any more.
    pub fn reset(&mut self, out: &mut Vec<Step>) {
        if self.is_live() {
            self.phase = Phase::Resetting { look_again: None };
            self.keep_alive_at = None;
            out.push(set_cc(self.enabled().with_en(false)));
        }
    }

    /// Whether it is reset and waits for [`enable_again`](Self::enable_again).
    pub fn is_disabled(&self) -> bool {
        self.phase == Phase::Disabled
    }

    /// Puts the controller to use again after its reset, from the same connection.
    pub fn enable_again(&mut self, out: &mut Vec<Step>) {
        self.io_queues = 0;
        self.namespaces.clear();
        self.expect(Purpose::Configure);
        out.push(set_cc(self.enabled()));
    }

    /// The connection of queue `qid` is up.
    pub fn on_link_up(&mut self, qid: u16, out: &mut Vec<Step>) {
        let (entries, cntlid) = match (&self.phase, qid) {
            (Phase::AwaitAdminLink, 0) => (self.config.admin_entries, CNTLID_DYNAMIC),
            (Phase::AwaitIoQueues { .. }, 1..) => (self.io_entries, self.cntlid),
            _ => return,
        };
        if qid == 0 {
            self.phase = Phase::Await(Purpose::Connect(0));
        }
        let mut cattr = ConnectAttributes::empty();
        cattr.set(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL, !self.config.flow_control);
        let connect = Connect {
            cid: 0,
            sgl1: SglDescriptor::NO_DATA,
            recfmt: 0,
            qid,
            sqsize: ZeroBased::<u16>::saturating(u32::from(entries)),
            cattr,
            kato_ms: if qid == 0 { self.config.kato_ms } else { 0 },
        };
        let ControllerConfig { hostid, subnqn, hostnqn, .. } = &self.config;
        let data = ConnectData::new(*hostid, cntlid, subnqn, hostnqn).to_bytes().to_vec();
        out.push(Step::Send {
            qid,
            purpose: Purpose::Connect(qid),
            command: connect.to_command(),
            data: ControlData::ToController(data),
        });
    }

    /// A command of ours ended. `data` is what came from the controller.
    pub fn on_done(
        &mut self,
        now: Duration,
        purpose: Purpose,
        completion: &Completion,
        data: &[u8],
        out: &mut Vec<Step>,
    ) {
        let good = completion.status.is_success();
        match purpose {
            Purpose::AsyncEvent if !good => return,
            Purpose::AsyncEvent => {
                out.push(Step::Event(completion.dw0));
                if self.is_live() {
                    out.push(async_event());
                }
                return;
            }
            Purpose::KeepAlive if good => return,
            _ if !good => {
                self.phase = Phase::Off;
                let why = match purpose {
                    Purpose::Connect(_) => refusal(completion),
                    _ => completion.status.to_string(),
                };
                return out.push(Step::Fail(format!("{purpose:?}: {why}")));
            }
            _ => {}
        }
        match (self.phase.clone(), purpose) {
            (Phase::Await(Purpose::Connect(0)), Purpose::Connect(0)) => {
                self.cntlid = ConnectResponse::from_dw0(completion.dw0).cntlid;
                self.expect(Purpose::Capabilities);
                out.push(get(Purpose::Capabilities, CAP_OFFSET, PropertySize::Eight));
            }
            (Phase::Await(Purpose::Capabilities), Purpose::Capabilities) => {
                self.cap = Cap(completion.result64());
                self.expect(Purpose::Version);
                out.push(get(Purpose::Version, VS_OFFSET, PropertySize::Four));
            }
            (Phase::Await(Purpose::Version), Purpose::Version) => {
                self.expect(Purpose::Configure);
                out.push(set_cc(self.enabled()));
            }
            (Phase::Await(Purpose::Configure), Purpose::Configure) => {
                self.phase = Phase::AwaitReady { look_again: None };
                out.push(get_csts());
            }
            (Phase::AwaitReady { .. }, Purpose::Status) => self.on_status(now, completion, out),
            (Phase::Leaving { goodbye, .. }, Purpose::Configure) => {
                self.phase = Phase::Leaving { goodbye, look_again: None };
                out.push(get_csts());
            }
            (Phase::Leaving { goodbye, .. }, Purpose::Status) => {
                let csts = Csts(completion.dw0);
                let left = match goodbye {
                    Goodbye::Disable => !csts.rdy(),
                    _ => csts.shst() == SHST_COMPLETE,
                };
                if left {
                    self.phase = Phase::Off;
                    return out.push(Step::Left(goodbye));
                }
                self.phase = Phase::Leaving { goodbye, look_again: Some(now + READY_POLL) };
            }
            (Phase::Resetting { .. }, Purpose::Configure) => out.push(get_csts()),
            (Phase::Resetting { .. }, Purpose::Status) if Csts(completion.dw0).rdy() => {
                self.phase = Phase::Resetting { look_again: Some(now + READY_POLL) };
            }
            (Phase::Resetting { .. }, Purpose::Status) => {
                self.phase = Phase::Disabled;
                out.push(Step::Disabled);
            }
            (Phase::Await(Purpose::Identify), Purpose::Identify) => self.on_identified(data, out),
            (Phase::Await(Purpose::QueueCount), Purpose::QueueCount) => {
                let granted = (completion.dw0 & 0xffff).min(completion.dw0 >> 16) + 1;
                self.io_queues = self.config.io_queues.min(granted.min(0xffff) as u16);
                self.expect(Purpose::EventConfig);
                let command = commands::set_features(FEATURE_ASYNC_EVENTS, AEC_NAMESPACE_CHANGED);
                out.push(send(Purpose::EventConfig, command, ControlData::None));
            }
            (Phase::Await(Purpose::EventConfig), Purpose::EventConfig) => {
                self.phase = Phase::AwaitIoQueues { to_connect: self.io_queues };
                let (entries, cntlid) = (self.io_entries, self.cntlid);
                let in_capsule = self.info.in_capsule;
                for qid in 1..=self.io_queues {
                    out.push(Step::Open { qid, entries, cntlid, in_capsule });
                }
            }
            (Phase::AwaitIoQueues { to_connect }, Purpose::Connect(_)) => {
                if ConnectResponse::from_dw0(completion.dw0).cntlid != self.cntlid {
                    self.phase = Phase::Off;
                    let reason = "an I/O queue was connected to another controller";
                    return out.push(Step::Fail(reason.into()));
                }
                self.phase = Phase::AwaitIoQueues { to_connect: to_connect - 1 };
                if to_connect == 1 {
                    self.expect(Purpose::NamespaceList);
                    out.push(list_namespaces(0));
                }
            }
            (Phase::Await(Purpose::NamespaceList), Purpose::NamespaceList) => {
                self.to_identify = namespace_ids(data);
                self.to_identify.reverse();
                self.identify_next(now, out);
            }
            (Phase::Await(Purpose::Namespace(nsid)), Purpose::Namespace(_)) => {
                let ns = NamespaceInfo::read(nsid, data);
                if ns.blocks == 0 && ns.lba_shift == 0 {
                    // It went after the list was made.
                    return self.identify_next(now, out);
                }
                if !(9..=12).contains(&ns.lba_shift) || ns.blocks == 0 {
                    self.phase = Phase::Off;
                    return out.push(Step::Fail(format!("a namespace of no use: {ns:?}")));
                }
                self.namespaces.push(ns);
                self.identify_next(now, out);
            }
            _ => {}
        }
    }

    fn on_status(&mut self, now: Duration, completion: &Completion, out: &mut Vec<Step>) {
        if !Csts(completion.dw0).rdy() {
            self.phase = Phase::AwaitReady { look_again: Some(now + READY_POLL) };
            return;
        }
        self.expect(Purpose::Identify);
        let command = commands::identify(0x01, 0);
        out.push(send(Purpose::Identify, command, ControlData::FromController(IDENTIFY_LEN)));
    }

    fn on_identified(&mut self, data: &[u8], out: &mut Vec<Step>) {
        self.info = ControllerInfo::read(data);
        if self.info.cntlid != self.cntlid || self.info.icdoff != 0 {
            self.phase = Phase::Off;
            let reason = format!("Identify does not fit the connection: {:?}", self.info);
            return out.push(Step::Fail(reason));
        }
        let most = self.cap.max_queue_entries().min(4096) as u16;
        self.io_entries = self.config.io_entries.min(most);
        if self.info.maxcmd != 0 {
            self.io_entries = self.io_entries.min(self.info.maxcmd);
        }
        if self.config.io_queues == 0 {
            self.go_live(out);
            return;
        }
        self.expect(Purpose::QueueCount);
        let asked = u32::from(self.config.io_queues - 1);
        let command = commands::set_features(FEATURE_NUMBER_OF_QUEUES, asked << 16 | asked);
        out.push(send(Purpose::QueueCount, command, ControlData::None));
    }

    fn identify_next(&mut self, now: Duration, out: &mut Vec<Step>) {
        match self.to_identify.pop() {
            Some(nsid) => {
                self.expect(Purpose::Namespace(nsid));
                let command = commands::identify(0x00, nsid);
                let data = ControlData::FromController(IDENTIFY_LEN);
                out.push(send(Purpose::Namespace(nsid), command, data));
            }
            None => {
                self.schedule_keep_alive(now);
                self.go_live(out);
            }
        }
    }

    fn go_live(&mut self, out: &mut Vec<Step>) {
        self.phase = Phase::Live;
        for _ in 0..self.config.async_events.min(self.info.aer_limit) {
            out.push(async_event());
        }
        out.push(Step::Live);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Duration, out: &mut Vec<Step>) {
        match &mut self.phase {
            Phase::AwaitReady { look_again }
            | Phase::Leaving { look_again, .. }
            | Phase::Resetting { look_again }
                if look_again.is_some_and(|at| at <= now) =>
            {
                *look_again = None;
                out.push(get_csts());
            }
            Phase::Live
                if self.config.kato_ms != 0 && self.keep_alive_at.is_none_or(|at| at <= now) =>
            {
                self.schedule_keep_alive(now);
                let command = commands::keep_alive();
                out.push(send(Purpose::KeepAlive, command, ControlData::None));
            }
            _ => {}
        }
    }

    /// Entries of the admin queue that are kept for commands of our own, which may come at any time:
    /// event requests, a Keep Alive, and a property on the way out.
    pub fn reserve(&self) -> usize {
        usize::from(self.config.async_events.min(self.info.aer_limit)) + 2
    }

    /// When [`on_time`](Self::on_time) is due.
    pub fn timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::AwaitReady { look_again }
            | Phase::Leaving { look_again, .. }
            | Phase::Resetting { look_again } => look_again,
            Phase::Live => self.keep_alive_at,
            _ => None,
        }
    }

    fn schedule_keep_alive(&mut self, now: Duration) {
        if self.config.kato_ms != 0 {
            self.keep_alive_at = Some(now + Duration::from_millis(self.config.kato_ms.into()) / 2);
        }
    }

    fn expect(&mut self, purpose: Purpose) {
        self.phase = Phase::Await(purpose);
    }

    fn enabled(&self) -> Cc {
        Cc::default().with_en(true).with_iosqes(6).with_iocqes(4)
    }
}

/// Why a Connect was refused, with the field that the target names (NVMe Base 2.1, 6.3).
fn refusal(completion: &Completion) -> String {
    const INVALID_PARAMETERS: u8 = 0x82;
    if (completion.status.sct().0, completion.status.sc()) != (1, INVALID_PARAMETERS) {
        return completion.status.to_string();
    }
    let location = ConnectLocation::from_dw0(completion.dw0);
    let what = match location {
        ConnectLocation::SUBNQN => "there is no such subsystem, or not for this host",
        ConnectLocation::HOSTNQN => "the host's name is not taken",
        ConnectLocation::HOSTID => "the host's identifier is not taken",
        ConnectLocation::CNTLID => "there is no such controller",
        ConnectLocation::SQSIZE => "the queue's size is not taken",
        ConnectLocation::QID => "the queue's id is not taken",
        ConnectLocation::KATO => "the keep alive timeout is not taken",
        _ => return format!("a parameter is not taken: {location:?}"),
    };
    what.to_owned()
}

fn send(purpose: Purpose, command: Command, data: ControlData) -> Step {
    Step::Send { qid: 0, purpose, command, data }
}

fn get(purpose: Purpose, offset: u32, size: PropertySize) -> Step {
    send(purpose, PropertyGet { cid: 0, size, offset }.to_command(), ControlData::None)
}

fn get_csts() -> Step {
    get(Purpose::Status, CSTS_OFFSET, PropertySize::Four)
}

fn set_cc(cc: Cc) -> Step {
    let set =
        PropertySet { cid: 0, size: PropertySize::Four, offset: CC_OFFSET, value: u64::from(cc.0) };
    send(Purpose::Configure, set.to_command(), ControlData::None)
}

fn async_event() -> Step {
    send(Purpose::AsyncEvent, commands::async_event(), ControlData::None)
}

fn list_namespaces(after: u32) -> Step {
    let command = commands::identify(0x02, after);
    send(Purpose::NamespaceList, command, ControlData::FromController(IDENTIFY_LEN))
}

#[cfg(test)]
mod tests;
