//! Messages of in-band authentication: DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4).
//!
//! A message is what Authentication Send carries or Authentication Receive
//! returns. Only its layout is here; hashes and keys are not.

use crate::layout::{Field, get, put};

#[cfg(test)]
mod tests;

codes! {
    /// Message type and id, the first two bytes: `type << 8 | id`.
    pub struct AuthMessageId(u16) {
        NEGOTIATE = 0x0000, "AUTH_Negotiate";
        FAILURE2 = 0x00f0, "AUTH_Failure2";
        FAILURE1 = 0x00f1, "AUTH_Failure1";
        CHALLENGE = 0x0101, "DH-HMAC-CHAP_Challenge";
        REPLY = 0x0102, "DH-HMAC-CHAP_Reply";
        SUCCESS1 = 0x0103, "DH-HMAC-CHAP_Success1";
        SUCCESS2 = 0x0104, "DH-HMAC-CHAP_Success2";
    }
}

codes! {
    /// Hash function of DH-HMAC-CHAP.
    pub struct HashId(u8) {
        SHA_256 = 1, "SHA-256";
        SHA_384 = 2, "SHA-384";
        SHA_512 = 3, "SHA-512";
    }
}

impl HashId {
    /// Bytes of its digest; `None` for an unknown function.
    pub const fn digest_len(self) -> Option<usize> {
        match self {
            Self::SHA_256 => Some(32),
            Self::SHA_384 => Some(48),
            Self::SHA_512 => Some(64),
            _ => None,
        }
    }
}

codes! {
    /// Diffie-Hellman group of DH-HMAC-CHAP.
    pub struct DhGroupId(u8) {
        NULL = 0, "NULL";
        FFDHE_2048 = 1, "ffdhe2048";
        FFDHE_3072 = 2, "ffdhe3072";
        FFDHE_4096 = 3, "ffdhe4096";
        FFDHE_6144 = 4, "ffdhe6144";
        FFDHE_8192 = 5, "ffdhe8192";
    }
}

codes! {
    /// Why authentication failed (reason code explanation).
    pub struct AuthFailure(u8) {
        FAILED = 1, "authentication failed";
        PROTOCOL_NOT_USABLE = 2, "authentication protocol not usable";
        SECURE_CHANNEL_MISMATCH = 3, "secure channel concatenation mismatch";
        HASH_NOT_USABLE = 4, "hash function not usable";
        DH_GROUP_NOT_USABLE = 5, "DH group not usable";
        INCORRECT_PAYLOAD = 6, "incorrect payload";
        INCORRECT_MESSAGE = 7, "incorrect protocol message";
    }
}

/// Authentication protocol id of DH-HMAC-CHAP (AUTHID).
pub const AUTHID_DH_HMAC_CHAP: u8 = 1;

/// The one reason code of a failure: authentication failure.
pub const AUTH_FAILURE_REASON: u8 = 1;

/// A message is not what it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// It ends before its last field.
    Truncated {
        /// Bytes it takes.
        needed: usize,
        /// Bytes there were.
        got: usize,
    },
    /// It is another message.
    Unexpected(AuthMessageId),
    /// It names no usable protocol, or a length that no hash has.
    Malformed,
}

impl core::fmt::Display for AuthError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated { needed, got } => {
                write!(f, "authentication message of {needed} bytes, only {got} given")
            }
            Self::Unexpected(id) => write!(f, "unexpected authentication message {id}"),
            Self::Malformed => f.write_str("malformed authentication message"),
        }
    }
}

impl core::error::Error for AuthError {}

fn need(bytes: &[u8], needed: usize) -> Result<(), AuthError> {
    if bytes.len() < needed {
        return Err(AuthError::Truncated { needed, got: bytes.len() });
    }
    Ok(())
}

fn expect(bytes: &[u8], id: AuthMessageId) -> Result<(), AuthError> {
    match message_id(bytes)? {
        got if got == id => Ok(()),
        got => Err(AuthError::Unexpected(got)),
    }
}

/// Which message it is.
///
/// # Errors
/// [`AuthError::Truncated`] when there are fewer than 2 bytes.
pub fn message_id(bytes: &[u8]) -> Result<AuthMessageId, AuthError> {
    need(bytes, 2)?;
    Ok(AuthMessageId(u16::from(bytes[0]) << 8 | u16::from(bytes[1])))
}

/// The transaction a message belongs to (T_ID).
///
/// # Errors
/// [`AuthError::Truncated`] when there are fewer than 6 bytes.
pub fn transaction_id(bytes: &[u8]) -> Result<u16, AuthError> {
    need(bytes, 6)?;
    Ok(get(bytes, 4))
}

/// Writes type, id and transaction to a message whose bytes are zero.
fn head(out: &mut [u8], id: AuthMessageId, t_id: u16) {
    let [kind, id] = id.0.to_be_bytes();
    out[0] = kind;
    out[1] = id;
    put(out, 4, t_id);
}

/// Most entries of a list in [`Negotiate`].
pub const NEGOTIATE_LIST_MAX: usize = 30;

/// Bytes of an AUTH_Negotiate message with one protocol.
pub const NEGOTIATE_SIZE: usize = 72;

/// AUTH_Negotiate, from the host: what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiate<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Secure channel concatenation asked for (SC_C); 0 for none.
    pub sc_c: u8,
    /// Hash functions in the host's order, at most 30.
    pub hashes: &'a [u8],
    /// Diffie-Hellman groups in the host's order, at most 30.
    pub groups: &'a [u8],
}

impl<'a> Negotiate<'a> {
    const DESCRIPTORS: usize = 8;
    const DESCRIPTOR: usize = 64;
    const LISTS: usize = 4;

    /// Reads the message and in it the first DH-HMAC-CHAP descriptor.
    ///
    /// # Errors
    /// [`AuthError`]; [`AuthError::Malformed`] when there is no such
    /// descriptor or it has a list of more than 30.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AuthError> {
        expect(bytes, AuthMessageId::NEGOTIATE)?;
        need(bytes, Self::DESCRIPTORS)?;
        let napd = usize::from(bytes[7]);
        need(bytes, Self::DESCRIPTORS + napd * Self::DESCRIPTOR)?;
        let descriptor = bytes[Self::DESCRIPTORS..]
            .chunks_exact(Self::DESCRIPTOR)
            .take(napd)
            .find(|d| d[0] == AUTHID_DH_HMAC_CHAP)
            .ok_or(AuthError::Malformed)?;
        let lists = &descriptor[Self::LISTS..];
        let (hashes, groups) = lists.split_at(NEGOTIATE_LIST_MAX);
        Ok(Self {
            t_id: get(bytes, 4),
            sc_c: bytes[6],
            hashes: hashes.get(..usize::from(descriptor[2])).ok_or(AuthError::Malformed)?,
            groups: groups.get(..usize::from(descriptor[3])).ok_or(AuthError::Malformed)?,
        })
    }

    /// The message, with one protocol; lists are cut at 30.
    pub fn to_bytes(&self) -> [u8; NEGOTIATE_SIZE] {
        let mut out = [0; NEGOTIATE_SIZE];
        head(&mut out, AuthMessageId::NEGOTIATE, self.t_id);
        out[6] = self.sc_c;
        out[7] = 1;
        let hashes = &self.hashes[..self.hashes.len().min(NEGOTIATE_LIST_MAX)];
        let groups = &self.groups[..self.groups.len().min(NEGOTIATE_LIST_MAX)];
        let descriptor = &mut out[Self::DESCRIPTORS..];
        descriptor[0] = AUTHID_DH_HMAC_CHAP;
        descriptor[2] = hashes.len() as u8;
        descriptor[3] = groups.len() as u8;
        let (hash_list, group_list) = descriptor[Self::LISTS..].split_at_mut(NEGOTIATE_LIST_MAX);
        hash_list[..hashes.len()].copy_from_slice(hashes);
        group_list[..groups.len()].copy_from_slice(groups);
        out
    }
}

const VALUES: usize = 16;

/// DH-HMAC-CHAP_Challenge, from the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Hash function chosen.
    pub hash: HashId,
    /// Group chosen.
    pub group: DhGroupId,
    /// Sequence number of the challenge (SEQNUM).
    pub seqnum: u32,
    /// Challenge (C1), as long as the digest, at most 255 bytes.
    pub cval: &'a [u8],
    /// The controller's public value, empty without a group; at most 65535
    /// bytes.
    pub dhv: &'a [u8],
}

impl<'a> Challenge<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AuthError> {
        expect(bytes, AuthMessageId::CHALLENGE)?;
        need(bytes, VALUES)?;
        let hl = usize::from(bytes[6]);
        let dhv_len = usize::from(get::<u16>(bytes, 10));
        need(bytes, VALUES + hl + dhv_len)?;
        let (cval, rest) = bytes[VALUES..].split_at(hl);
        Ok(Self {
            t_id: get(bytes, 4),
            hash: HashId(bytes[8]),
            group: DhGroupId(bytes[9]),
            seqnum: get(bytes, 12),
            cval,
            dhv: &rest[..dhv_len],
        })
    }

    /// Writes the message to the front of `out` and returns its length;
    /// `None` when `out` is too short or a value longer than its length field
    /// can say.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let hl = u8::try_from(self.cval.len()).ok()?;
        let dhv_len = u16::try_from(self.dhv.len()).ok()?;
        let len = VALUES + self.cval.len() + self.dhv.len();
        let out = out.get_mut(..len)?;
        out.fill(0);
        head(out, AuthMessageId::CHALLENGE, self.t_id);
        put(out, 6, hl);
        put(out, 8, self.hash);
        put(out, 9, self.group);
        put(out, 10, dhv_len);
        put(out, 12, self.seqnum);
        let (cval, dhv) = out[VALUES..].split_at_mut(self.cval.len());
        cval.copy_from_slice(self.cval);
        dhv.copy_from_slice(self.dhv);
        Some(len)
    }
}

/// DH-HMAC-CHAP_Reply, from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Sequence number of the host's own challenge (SEQNUM), 0 without one.
    pub seqnum: u32,
    /// Response to the controller's challenge (R1).
    pub rval: &'a [u8],
    /// The host's challenge (C2), as long as `rval`, if it wants the
    /// controller to authenticate too (CVALID).
    pub cval: Option<&'a [u8]>,
    /// The host's public value, empty without a group.
    pub dhv: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AuthError> {
        expect(bytes, AuthMessageId::REPLY)?;
        need(bytes, VALUES)?;
        let hl = usize::from(bytes[6]);
        let dhv_len = usize::from(get::<u16>(bytes, 10));
        need(bytes, VALUES + 2 * hl + dhv_len)?;
        let (rval, rest) = bytes[VALUES..].split_at(hl);
        let (cval, rest) = rest.split_at(hl);
        Ok(Self {
            t_id: get(bytes, 4),
            seqnum: get(bytes, 12),
            rval,
            cval: (bytes[8] & 1 != 0).then_some(cval),
            dhv: &rest[..dhv_len],
        })
    }

    /// Writes the message to the front of `out` and returns its length;
    /// `None` when `out` is too short, a value longer than its length field
    /// can say, or the challenge not as long as the response.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let hl = u8::try_from(self.rval.len()).ok()?;
        let dhv_len = u16::try_from(self.dhv.len()).ok()?;
        let len = VALUES + 2 * self.rval.len() + self.dhv.len();
        let out = out.get_mut(..len)?;
        out.fill(0);
        head(out, AuthMessageId::REPLY, self.t_id);
        put(out, 6, hl);
        put(out, 8, u8::from(self.cval.is_some()));
        put(out, 10, dhv_len);
        put(out, 12, self.seqnum);
        let (rval, rest) = out[VALUES..].split_at_mut(self.rval.len());
        rval.copy_from_slice(self.rval);
        let (cval, dhv) = rest.split_at_mut(self.rval.len());
        if let Some(challenge) = self.cval {
            if challenge.len() != cval.len() {
                return None;
            }
            cval.copy_from_slice(challenge);
        }
        dhv.copy_from_slice(self.dhv);
        Some(len)
    }
}

/// DH-HMAC-CHAP_Success1, from the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success1<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Length of the digest in bytes (HL).
    pub hl: u8,
    /// Response to the host's challenge (R2), if there was one (RVALID).
    pub rval: Option<&'a [u8]>,
}

impl<'a> Success1<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AuthError> {
        expect(bytes, AuthMessageId::SUCCESS1)?;
        need(bytes, VALUES)?;
        let hl = bytes[6];
        let valid = bytes[8] & 1 != 0;
        let rval = if valid {
            need(bytes, VALUES + usize::from(hl))?;
            Some(&bytes[VALUES..VALUES + usize::from(hl)])
        } else {
            None
        };
        Ok(Self { t_id: get(bytes, 4), hl, rval })
    }

    /// Writes the message to the front of `out` and returns its length;
    /// `None` when `out` is too short or the response not of length `hl`.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let len = VALUES + usize::from(self.hl);
        let out = out.get_mut(..len)?;
        out.fill(0);
        head(out, AuthMessageId::SUCCESS1, self.t_id);
        put(out, 6, self.hl);
        put(out, 8, u8::from(self.rval.is_some()));
        if let Some(rval) = self.rval {
            if rval.len() != usize::from(self.hl) {
                return None;
            }
            out[VALUES..].copy_from_slice(rval);
        }
        Some(len)
    }
}

/// Bytes of a DH-HMAC-CHAP_Success2 message.
pub const SUCCESS2_SIZE: usize = 16;

/// DH-HMAC-CHAP_Success2, from the host: it is content with the controller.
pub fn success2(t_id: u16) -> [u8; SUCCESS2_SIZE] {
    let mut out = [0; SUCCESS2_SIZE];
    head(&mut out, AuthMessageId::SUCCESS2, t_id);
    out
}

/// AUTH_Failure1 (from the controller) or AUTH_Failure2 (from the host).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message is AUTH_Failure2.
    pub from_host: bool,
    /// Transaction.
    pub t_id: u16,
    /// Reason code; [`AUTH_FAILURE_REASON`].
    pub reason: u8,
    /// Explanation.
    pub explanation: AuthFailure,
}

impl Failure {
    /// Bytes of the message.
    pub const SIZE: usize = 8;

    /// Reads the message.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, AuthError> {
        // Some Linux hosts give a Failure2 the type of DH-HMAC-CHAP messages.
        let from_host = match message_id(bytes)? {
            AuthMessageId::FAILURE1 => false,
            AuthMessageId::FAILURE2 | AuthMessageId(0x01f0) => true,
            other => return Err(AuthError::Unexpected(other)),
        };
        need(bytes, Self::SIZE)?;
        Ok(Self {
            from_host,
            t_id: get(bytes, 4),
            reason: bytes[6],
            explanation: AuthFailure(bytes[7]),
        })
    }

    /// The message.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let id = if self.from_host { AuthMessageId::FAILURE2 } else { AuthMessageId::FAILURE1 };
        head(&mut out, id, self.t_id);
        out[6] = self.reason;
        self.explanation.put(&mut out[7..8]);
        out
    }
}
