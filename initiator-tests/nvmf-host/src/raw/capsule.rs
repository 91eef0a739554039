//! A capsule as the user writes it.

use crate::args::RawArgs;
use anyhow::{Context, Result, bail};
use nvme_spec_types::{Command, SglDescriptor};
use serde::Deserialize;

/// Identifier of the first command that was given none.
const FIRST_CID: u16 = 1;

/// Members of the JSON form.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Json {
    opcode: u8,
    flags: Option<u8>,
    cid: Option<u16>,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    sgl: Option<String>,
    data: Option<String>,
}

/// What to send.
#[derive(Debug)]
pub(super) enum Capsule {
    /// These bytes, as they are.
    Bytes(Vec<u8>),
    /// A command, and what is still to be filled in.
    Command { command: Command, data: Vec<u8>, has_cid: bool, has_sgl: bool },
}

/// FLAGS of a command with an SGL (PSDT 01b).
const PSDT_SGL: u8 = 0x40;

impl Capsule {
    /// Reads what the user gave.
    ///
    /// # Errors
    /// When that is nothing, or not in its form.
    pub(super) fn of(args: &RawArgs) -> Result<Capsule> {
        match (&args.hex, &args.json) {
            (Some(hex), None) if args.read.is_none() && args.write.is_none() => {
                Ok(Capsule::Bytes(bytes(hex)?))
            }
            (Some(_), None) => bail!("--read and --write go with --json, whose sgl is filled in"),
            (None, Some(json)) => match json.strip_prefix('@') {
                None => Self::of_json(json),
                Some(path) => {
                    Self::of_json(&std::fs::read_to_string(path).with_context(|| path.to_owned())?)
                }
            },
            _ => bail!("say what to send: --hex TEXT or --json TEXT"),
        }
    }

    fn of_json(text: &str) -> Result<Capsule> {
        let json: Json = serde_json::from_str(text).context("the capsule as JSON")?;
        let mut raw = [0u8; 64];
        raw[0] = json.opcode;
        raw[1] = json.flags.unwrap_or(PSDT_SGL);
        if let Some(sgl) = &json.sgl {
            let sgl = bytes(sgl)?;
            if sgl.len() != 16 {
                bail!("sgl has {} bytes instead of 16", sgl.len());
            }
            raw[24..40].copy_from_slice(&sgl);
        }
        let mut command = Command::from_bytes(raw);
        command.set_cid(json.cid.unwrap_or(FIRST_CID));
        command.set_nsid(json.nsid);
        command.set_cdw2(json.cdw2);
        command.set_cdw3(json.cdw3);
        command.set_cdw10(json.cdw10);
        command.set_cdw11(json.cdw11);
        command.set_cdw12(json.cdw12);
        command.set_cdw13(json.cdw13);
        command.set_cdw14(json.cdw14);
        command.set_cdw15(json.cdw15);
        let data = json.data.as_deref().map(bytes).transpose()?.unwrap_or_default();
        let (has_cid, has_sgl) = (json.cid.is_some(), json.sgl.is_some());
        Ok(Capsule::Command { command, data, has_cid, has_sgl })
    }

    /// The message of the `index`-th time. `memory` describes memory that is open to the target.
    pub(super) fn bytes(&self, index: u16, memory: Option<SglDescriptor>) -> Vec<u8> {
        match self {
            Capsule::Bytes(bytes) => bytes.clone(),
            Capsule::Command { command, data, has_cid, has_sgl } => {
                let mut command = *command;
                if !has_cid {
                    command.set_cid(FIRST_CID.wrapping_add(index));
                }
                let in_capsule = SglDescriptor::InCapsule { offset: 0, len: data.len() as u32 };
                let described = memory.or((!data.is_empty()).then_some(in_capsule));
                if !has_sgl {
                    command.set_sgl1(described.unwrap_or(SglDescriptor::NO_DATA));
                }
                [command.as_bytes().as_slice(), data].concat()
            }
        }
    }
}

/// Bytes of hexadecimal text; blanks and colons are left out.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()
        .context("hexadecimal text holds other characters")?;
    if !digits.len().is_multiple_of(2) {
        bail!("hexadecimal text has half a byte at its end");
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_a_command_with_data_behind_it() {
        let text = r#"{"opcode": 1, "nsid": 7, "cdw10": 16, "data": "01:02 03ff"}"#;
        let capsule = Capsule::of_json(text).unwrap();
        let sent = capsule.bytes(4, None);
        assert_eq!(sent.len(), 68);
        assert_eq!(sent[..8], [1, 0x40, 5, 0, 7, 0, 0, 0]);
        assert_eq!(sent[32..36], [4, 0, 0, 0], "length in the descriptor");
        assert_eq!(sent[39], 1, "in the capsule");
        assert_eq!(sent[40], 16);
        assert_eq!(sent[64..], [1, 2, 3, 0xff]);
    }

    #[test]
    fn what_the_user_set_stays() {
        let text =
            r#"{"opcode": 2, "flags": 0, "cid": 9, "sgl": "000102030405060708090a0b0c0d0e0f"}"#;
        let sent = Capsule::of_json(text).unwrap().bytes(4, Some(SglDescriptor::NO_DATA));
        assert_eq!(sent[..4], [2, 0, 9, 0]);
        assert_eq!(sent[24..40], std::array::from_fn::<u8, 16, _>(|i| i as u8));
    }

    #[test]
    fn unknown_members_and_half_bytes_are_refused() {
        assert!(Capsule::of_json(r#"{"opcod": 2}"#).is_err());
        assert!(bytes("123").is_err());
        assert!(bytes("0x12").is_err());
    }
}
