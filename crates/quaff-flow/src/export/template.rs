//! The template language of nProbe's `-T`, and the copy plans into which templates are compiled. Nothing is encoded
//! here.
//!
//! A name begins at `%` and ends at white space or at the next `%`; text outside of names is ignored. It has to be
//! exactly nProbe's label or the IPFIX name. A repeated field is skipped. One template is used for both address
//! families: the plan for IPv6 has the IPv6 elements in place of those of IPv4.

use super::element::{self, DataType, Element, REVERSE, REVERSE_BIT, VARIABLE, Value};
use super::value::FlowSide;
use crate::plan::{ExtrasPlan, KeyPlan};
use std::fmt;

/// nProbe's default template for NetFlow v9.
pub const DEFAULT_V9: &str = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IPV4_NEXT_HOP %INPUT_SNMP %OUTPUT_SNMP %IN_PKTS %IN_BYTES \
    %FIRST_SWITCHED %LAST_SWITCHED %L4_SRC_PORT %L4_DST_PORT %TCP_FLAGS %PROTOCOL %SRC_TOS %SRC_AS %DST_AS \
    %IPV4_SRC_MASK %IPV4_DST_MASK";
/// nProbe's default template for IPFIX: times since 1970 instead of times since the start of the device.
pub const DEFAULT_IPFIX: &str = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IPV4_NEXT_HOP %INPUT_SNMP %OUTPUT_SNMP %IN_PKTS %IN_BYTES \
    %FLOW_START_MILLISECONDS %FLOW_END_MILLISECONDS %L4_SRC_PORT %L4_DST_PORT %TCP_FLAGS %PROTOCOL %SRC_TOS \
    %SRC_AS %DST_AS %IPV4_SRC_MASK %IPV4_DST_MASK";
/// The default fields of IPFIX files: all that a question to stored flows may name but the application; both
/// directions, times in nanoseconds.
pub const DEFAULT_FILE: &str = "%flowStartNanoseconds %flowEndNanoseconds %sourceIPv4Address %destinationIPv4Address \
    %sourceTransportPort %destinationTransportPort %protocolIdentifier %icmpTypeCodeIPv4 %vlanId %dot1qCustomerVlanId \
    %mplsTopLabelStackSection %quaffTunnelId %ingressInterface %ipClassOfService %tcpControlBits %reverseTcpControlBits \
    %packetDeltaCount %octetDeltaCount %reversePacketDeltaCount %reverseOctetDeltaCount %flowEndReason \
    %quaffInitiatorRule %quaffIsContinued";
/// Fields of the application of a flow.
const APPLICATION_FIELDS: &str = " %applicationName %quaffServerName %quaffApplicationProtocols";
/// The default fields of text formats: both directions, times in nanoseconds.
pub(crate) const DEFAULT_TEXT: &str = "%flowStartNanoseconds %flowEndNanoseconds %sourceIPv4Address %destinationIPv4Address \
    %sourceTransportPort %destinationTransportPort %protocolIdentifier %icmpTypeCodeIPv4 %vlanId %ingressInterface \
    %ipClassOfService %tcpControlBits %reverseTcpControlBits %packetDeltaCount %octetDeltaCount \
    %reversePacketDeltaCount %reverseOctetDeltaCount %flowEndReason %quaffInitiatorRule %quaffIsContinued \
    %dot1qCustomerVlanId";

/// nProbe's names that stand for several fields.
const MACROS: &[(&str, &str)] = &[(
    "@NTOPNG@",
    "%IN_SRC_MAC %OUT_DST_MAC %INPUT_SNMP %OUTPUT_SNMP %SRC_VLAN %IPV4_SRC_ADDR %IPV4_DST_ADDR %L4_SRC_PORT \
     %L4_DST_PORT %PROTOCOL %IN_BYTES %IN_PKTS %OUT_BYTES %OUT_PKTS %FIRST_SWITCHED %LAST_SWITCHED %TCP_FLAGS \
     %CLIENT_TCP_FLAGS %SERVER_TCP_FLAGS %CLIENT_NW_LATENCY_MS %SERVER_NW_LATENCY_MS %RETRANSMITTED_IN_PKTS \
     %RETRANSMITTED_OUT_PKTS %OOORDER_IN_PKTS %OOORDER_OUT_PKTS %L7_PROTO_NAME %DNS_QUERY %HTTP_HOST \
     %TLS_SERVER_NAME",
)];
/// Further names of nProbe for known fields.
const ALIASES: &[(&str, &str)] = &[
    ("SRC_MASK", "IPV4_SRC_MASK"),
    ("DST_MASK", "IPV4_DST_MASK"),
    ("SSL_SERVER_NAME", "TLS_SERVER_NAME"),
    ("VLAN", "SRC_VLAN"),
    ("SRC_TO_DST_BYTES", "IN_BYTES"),
    ("DST_TO_SRC_BYTES", "OUT_BYTES"),
];
/// Numbers below this are reserved for sets (RFC 7011, 3.4.1).
pub(crate) const TEMPLATE_ID_MIN: u16 = 256;
/// Maximum bytes of a template text; whoever passes more meant to pass the name of a file.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A wire format with templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    V9,
    Ipfix,
}

/// The fields of a template, in the user's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    fields: Vec<Named>,
}

/// A field of a template: an element and its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) element: &'static Element,
    pub(crate) is_reverse: bool,
}

/// A mistake in a template, or in what it is exported with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the template names no field; a name begins with %, as in %IPV4_SRC_ADDR")]
    Empty,
    #[error("the template has {0} bytes; {TEXT_BYTES_MAX} at most")]
    TooLong(usize),
    #[error("{}", unknown_names(.0))]
    Unknown(Vec<UnknownName>),
    #[error("NetFlow v9 has no number for {0}: leave it out, or export IPFIX")]
    NotInV9(String),
    #[error(
        "the template has {fields} fields, for which messages of {bytes_max} bytes have no room: name fewer"
    )]
    TooManyFields { fields: usize, bytes_max: usize },
    #[error(
        "NetFlow v5 has 14 bits for the sampling, so at most 1 packet in {most}, and not 1 in {one_in}: sample more, or \
         export NetFlow v9 or IPFIX"
    )]
    SamplingInV5 { one_in: u32, most: u32 },
    #[error("the template id {id} leaves no numbers for all templates: use {TEMPLATE_ID_MIN} to {max}")]
    Id { id: u16, max: u16 },
}

/// An unknown name, and the most similar known ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    pub name: String,
    pub near: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.name.starts_with('@') { "" } else { "%" };
        write!(f, "{mark}{}", self.name)?;
        match self.near.split_first() {
            None => Ok(()),
            Some((first, others)) => {
                write!(f, " (similar: %{first}")?;
                others.iter().try_for_each(|other| write!(f, ", %{other}"))?;
                f.write_str(")")
            }
        }
    }
}

fn unknown_names(unknown: &[UnknownName]) -> String {
    let names: Vec<String> = unknown.iter().map(UnknownName::to_string).collect();
    format!("the template names unknown fields: {}", names.join("; "))
}

impl Template {
    /// Parses a template. An unknown name is an error.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (template, unknown) = Self::parse_known(text)?;
        if unknown.is_empty() { Ok(template) } else { Err(TemplateError::Unknown(unknown)) }
    }

    /// Parses a template, skips unknown names, as nProbe does, and returns them. At least one name has to be known.
    pub fn parse_known(text: &str) -> Result<(Self, Vec<UnknownName>), TemplateError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(TemplateError::TooLong(text.len()));
        }
        let text = MACROS.iter().fold(text.to_owned(), |text, (name, fields)| text.replace(name, fields));
        let (mut fields, mut unknown) = (Vec::new(), Vec::<UnknownName>::new());
        let macros = text.split_whitespace().filter_map(macro_name);
        unknown.extend(macros.map(|name| UnknownName { name: name.to_owned(), near: Vec::new() }));
        for name in names(&text) {
            let name = macro_name(name).map_or(name, |found| name.split(found).next().unwrap_or(name));
            if name.is_empty() {
                continue;
            }
            let known = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, known)| known);
            match element::find(known) {
                Some((element, is_reverse)) => {
                    let named = Named { element: element::for_ipv4(element), is_reverse };
                    if !fields.contains(&named) {
                        fields.push(named);
                    }
                }
                None if unknown.iter().any(|unknown| unknown.name == name) => {}
                None => unknown.push(UnknownName { name: name.to_owned(), near: element::near(name) }),
            }
        }
        match (fields.is_empty(), unknown.is_empty()) {
            (true, true) => return Err(TemplateError::Empty),
            (true, false) => return Err(TemplateError::Unknown(unknown)),
            (false, _) => {}
        }
        Ok((Self { fields }, unknown))
    }

    /// The default template of a format.
    pub(crate) fn default_for(dialect: Dialect) -> Self {
        let text = match dialect {
            Dialect::V9 => DEFAULT_V9,
            Dialect::Ipfix => DEFAULT_IPFIX,
        };
        Self::parse(text).unwrap_or(Self { fields: Vec::new() })
    }

    /// The default fields of text formats.
    pub fn default_text() -> Self {
        Self::parse(DEFAULT_TEXT).unwrap_or(Self { fields: Vec::new() })
    }

    /// The default fields of text formats, and those of the application.
    pub fn default_list() -> Self {
        let text = format!("{DEFAULT_TEXT}{APPLICATION_FIELDS}");
        Self::parse(&text).unwrap_or(Self { fields: Vec::new() })
    }

    /// The default fields of IPFIX files, with those of the application if the meter computes them.
    pub fn default_file(has_applications: bool) -> Self {
        let more = if has_applications { APPLICATION_FIELDS } else { "" };
        Self::parse(&format!("{DEFAULT_FILE}{more}")).unwrap_or(Self { fields: Vec::new() })
    }

    pub(crate) fn fields(&self) -> &[Named] {
        &self.fields
    }

    /// True if a field has the reverse direction: a conversation is then one record, otherwise each of its directions
    /// is one.
    pub fn is_biflow(&self) -> bool {
        self.fields.iter().any(|field| field.is_reverse || field.element.of_reverse)
    }

    /// The extras that a meter must compute for these fields.
    pub fn extras(&self) -> ExtrasPlan {
        let mut plan = ExtrasPlan::default();
        for field in &self.fields {
            match field.element.value {
                Value::SourceMac | Value::DestinationMac => plan.macs = true,
                Value::Retransmitted | Value::OutOfOrder | Value::LostBytes | Value::WindowMax => {
                    plan.tcp = true
                }
                Value::ClientLatency | Value::ServerLatency => plan.tcp = true,
                Value::ClientRoundTrip | Value::ServerRoundTrip => plan.tcp = true,
                Value::AckTimes | Value::AckTimeMin | Value::AckTimeMean | Value::AckTimeMax => {
                    plan.ack_times = true;
                }
                Value::MinLength | Value::MaxLength | Value::GapMin | Value::GapMax => plan.statistics = true,
                Value::PayloadBytes => plan.statistics = true,
                Value::Payload => plan.payload_bytes = plan.payload_bytes.max(64),
                // The meter reads the payload that this needs by itself, and keeps none of it.
                Value::Application | Value::Alpn | Value::ServerName(_) => plan.application = true,
                _ => {}
            }
        }
        plan
    }

    /// Compiles the plan for a format and an address family. `is_biflow` includes the fields of the reverse direction.
    pub(crate) fn plan(
        &self,
        dialect: Dialect,
        is_ipv6: bool,
        is_biflow: bool,
    ) -> Result<CopyPlan, TemplateError> {
        let wanted =
            self.fields.iter().filter(|field| is_biflow || !(field.is_reverse || field.element.of_reverse));
        let mut steps = Vec::new();
        for field in wanted {
            // ICMP_TYPE of NetFlow v9 is used for both families; IPFIX has an element for each.
            let is_shared = dialect == Dialect::V9 && field.element.value == Value::IcmpTypeCode;
            let has_twin = is_ipv6 && !is_shared;
            let element = if has_twin { element::for_ipv6(field.element) } else { field.element };
            let side = self.side(field, is_biflow, dialect);
            steps.push(Step::new(element, side, field.is_reverse, dialect)?);
        }
        let of_uptime = |step: &Step| matches!(step.element.id, 21 | 22) && step.element.pen == 0;
        let has_init_time = steps.iter().any(|step| step.element.value == Value::InitTime);
        if dialect == Dialect::Ipfix && steps.iter().any(of_uptime) && !has_init_time {
            // Times since the start of a device are meaningless without the time of that start (RFC 7012, 5.10).
            let init_time = element::by_number(0, 160).into_iter();
            for element in init_time {
                steps.push(Step::new(element, FlowSide::Forward, false, dialect)?);
            }
        }
        let icmp = |step: &Step| matches!(step.element.value, Value::IcmpTypeCode | Value::IcmpType);
        let icmp_in_port = !steps.iter().any(icmp);
        let fixed: u16 = steps.iter().map(|step| if step.bytes == VARIABLE { 1 } else { step.bytes }).sum();
        let is_fixed = steps.iter().all(|step| step.bytes != VARIABLE);
        Ok(CopyPlan { steps, icmp_in_port, bytes_min: usize::from(fixed), is_fixed })
    }

    /// The side from which a field of a text format is read.
    pub(crate) fn side_of_text(&self, field: &Named) -> FlowSide {
        self.side(field, self.is_biflow(), Dialect::Ipfix)
    }

    /// The side from which a field is read. In a conversation, a value without a field for the reverse direction covers
    /// both directions: the earliest packet of both, the latest, and in NetFlow v9 the flags of both.
    fn side(&self, field: &Named, is_biflow: bool, dialect: Dialect) -> FlowSide {
        if field.is_reverse || field.element.of_reverse {
            return FlowSide::Reverse;
        }
        let value = field.element.value;
        let has_reverse = self
            .fields
            .iter()
            .any(|other| other.element.value == value && (other.is_reverse || other.element.of_reverse));
        let covers = match value {
            Value::Start | Value::End | Value::Duration | Value::MinTtl | Value::MaxTtl => true,
            Value::MinLength | Value::MaxLength => true,
            Value::TcpFlags => dialect == Dialect::V9 && field.element.pen == 0,
            _ => false,
        };
        if is_biflow && covers && !has_reverse { FlowSide::Both } else { FlowSide::Forward }
    }
}

/// An unknown macro `@WORD@` in a word, with its marks; the known ones have been replaced before.
fn macro_name(word: &str) -> Option<&str> {
    let (start, rest) = (word.find('@')?, word.split_once('@')?.1);
    let length = rest.find('@').filter(|length| *length > 0)?;
    let is_name =
        rest[..length].bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    is_name.then(|| &word[start..start + length + 2])
}

/// The names in a template.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let tokens = text.split('%').skip(1);
    tokens
        .map(|token| token.split(char::is_whitespace).next().unwrap_or_default())
        .filter(|name| !name.is_empty())
}

/// A template compiled for one format and address family: the values to write, in order, with their lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyPlan {
    pub(crate) steps: Vec<Step>,
    /// The destination port has the type and code of ICMP, as in NetFlow v5, because no other field has them.
    pub(crate) icmp_in_port: bool,
    /// Minimum bytes of a record.
    pub(crate) bytes_min: usize,
    /// All records have the length `bytes_min`.
    pub(crate) is_fixed: bool,
}

/// One field of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) element: &'static Element,
    pub(crate) side: FlowSide,
    /// The number on the wire, without the enterprise bit.
    pub(crate) id: u16,
    /// The enterprise on the wire; 0: IANA.
    pub(crate) pen: u32,
    /// The length on the wire; 65535: variable.
    pub(crate) bytes: u16,
}

impl Step {
    /// A field of a record.
    fn new(
        element: &'static Element,
        side: FlowSide,
        is_reverse: bool,
        dialect: Dialect,
    ) -> Result<Self, TemplateError> {
        if dialect == Dialect::Ipfix {
            let (id, pen) = numbers(element, is_reverse);
            return Ok(Self { element, side, id, pen, bytes: element.bytes });
        }
        let id = match (is_reverse, element.twin) {
            (false, _) => element.v9,
            (true, Some(twin)) => twin.v9,
            (true, None) => 0,
        };
        if id == 0 {
            let prefix = if is_reverse { "the reverse direction of " } else { "" };
            return Err(TemplateError::NotInV9(format!("{prefix}%{}", element.name)));
        }
        if element.v9_bytes == VARIABLE || matches!(element.kind, DataType::Micros | DataType::Nanos) {
            return Err(TemplateError::NotInV9(format!("%{}", element.name)));
        }
        Ok(Self { element, side, id, pen: 0, bytes: element.v9_bytes })
    }
}

/// The number and the enterprise of an element in IPFIX.
pub(crate) fn numbers(element: &Element, is_reverse: bool) -> (u16, u32) {
    match (is_reverse, element.pen) {
        (false, pen) => (element.id, pen),
        (true, 0) => (element.id, REVERSE),
        (true, pen) => (element.id | REVERSE_BIT, pen),
    }
}

impl CopyPlan {
    /// Maximum bytes of each variable field with which a record has at most `record_bytes`; 0 if there is no such
    /// field, or no room.
    pub(crate) fn variable_bytes_max(&self, record_bytes: usize) -> usize {
        let fields = self.steps.iter().filter(|step| step.bytes == VARIABLE).count();
        // Each length has up to three bytes, one of which `bytes_min` includes.
        let left = record_bytes.saturating_sub(self.bytes_min + 2 * fields);
        left.checked_div(fields).unwrap_or(0)
    }

    /// The bits of flowKeyIndicator (IE 173), one for each of the first 64 fields.
    pub(crate) fn key_bits(&self, key: &KeyPlan) -> u64 {
        let is_key = |step: &&(usize, &Step)| match step.1.element.value {
            Value::Source | Value::Destination | Value::SourcePort | Value::DestinationPort => true,
            Value::Protocol | Value::IpVersion => true,
            Value::Vlan | Value::InnerVlan => key.vlan,
            Value::MplsLabel => key.mpls,
            Value::Input => key.interface,
            Value::ServiceClass => key.tos,
            Value::Tunnel => key.tunnel,
            _ => false,
        };
        let numbered: Vec<(usize, &Step)> = self.steps.iter().enumerate().take(64).collect();
        numbered.iter().filter(is_key).fold(0, |bits, (place, _)| bits | 1 << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::element::PRIVATE;
    use proptest::prelude::*;

    fn fields(text: &str) -> Vec<&'static str> {
        Template::parse(text).unwrap().fields.iter().map(|field| field.element.name).collect()
    }

    #[test]
    fn both_label_sets_are_one_language() {
        let one = Template::parse("%IPV4_SRC_ADDR %IN_BYTES %OUT_BYTES").unwrap();
        let other = Template::parse("%sourceIPv4Address%octetDeltaCount\r\n%reverseOctetDeltaCount").unwrap();
        assert_eq!(one, other);
    }

    #[test]
    fn text_around_names_and_repetitions_are_ignored() {
        assert_eq!(
            fields("my %PROTOCOL no: %PROTOCOL template %IN_PKTS"),
            ["protocolIdentifier", "packetDeltaCount"]
        );
    }

    #[test]
    fn aliases_and_families_meet_in_one_field() {
        let names = fields("%SRC_MASK %IPV6_SRC_MASK %IPV6_SRC_ADDR");
        assert_eq!(names, ["sourceIPv4PrefixLength", "sourceIPv4Address"]);
    }

    #[test]
    fn other_labels_of_nprobe_are_known() {
        let names = fields(
            "%OCTET_TOTAL %PACKET_TOTAL %ICMP_IPV4_TYPE %ICMP_IPV4_CODE %LONGEST_FLOW_PKT %SHORTEST_FLOW_PKT",
        );
        assert_eq!(names.len(), 6);
        let (one, other) = ("%SRC_TO_DST_BYTES %DST_TO_SRC_BYTES", "%IN_BYTES %OUT_BYTES");
        assert_eq!(Template::parse(one), Template::parse(other));
    }

    /// `@WORD@` is a macro of nProbe; an unknown one is not ignored.
    #[test]
    fn an_unknown_macro_is_an_error() {
        let error = Template::parse("@SIP@ %IN_BYTES").unwrap_err().to_string();
        assert!(error.contains("unknown fields: @SIP@"), "{error}");
        let (template, unknown) = Template::parse_known("%IN_PKTS@RTP@ mail@example @").unwrap();
        assert_eq!((template.fields.len(), unknown.len(), &unknown[0].name[..]), (1, 1, "@RTP@"));
        assert!(Template::parse("@NTOPNG@ %IN_BYTES").is_ok());
    }

    #[test]
    fn an_unknown_name_is_an_error_with_its_neighbours() {
        let error =
            Template::parse("%IPV4_SRC_ADDR %IN_BYTE %NOTHING_LIKE_IT_AT_ALL").unwrap_err().to_string();
        let expected = "the template names unknown fields: %IN_BYTE (similar: %IN_BYTES";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("; %NOTHING_LIKE_IT_AT_ALL"), "{error}");

        let (template, unknown) = Template::parse_known("%IN_BYTE %IN_PKTS %IN_BYTE").unwrap();
        assert_eq!((template.fields.len(), unknown.len()), (1, 1));
        assert_eq!(Template::parse("no names"), Err(TemplateError::Empty));
        assert!(matches!(Template::parse_known("%IN_BYTE"), Err(TemplateError::Unknown(_))));
    }

    /// The default template has 49 bytes in nProbe 6.9, with an ifIndex of 2 bytes; 53 with 4 bytes; 61 with both
    /// counters of 8 bytes.
    #[test]
    fn the_default_record_has_61_bytes() {
        let template = Template::default_for(Dialect::V9);
        assert_eq!(template.plan(Dialect::V9, false, false).unwrap().bytes_min, 61);
        assert_eq!(template.plan(Dialect::V9, true, false).unwrap().bytes_min, 61 + 3 * 12);
        let ipfix = Template::default_for(Dialect::Ipfix).plan(Dialect::Ipfix, false, false).unwrap();
        assert_eq!(ipfix.bytes_min, 61 + 1 + 8);
    }

    #[test]
    fn files_have_both_directions_and_applications_where_they_are_known() {
        let [without, with] = [false, true].map(Template::default_file);
        assert_eq!((without.fields().len(), with.fields().len()), (23, 26));
        assert!(without.is_biflow() && !without.extras().is_any() && with.extras().application);
    }

    #[test]
    fn times_since_the_start_bring_that_time_along_in_ipfix() {
        let template = Template::parse("%FIRST_SWITCHED %PROTOCOL").unwrap();
        let ids = |dialect| -> Vec<u16> {
            template.plan(dialect, false, false).unwrap().steps.iter().map(|step| step.id).collect()
        };
        assert_eq!(ids(Dialect::Ipfix), [22, 4, 160]);
        assert_eq!(ids(Dialect::V9), [22, 4]);
    }

    #[test]
    fn the_reverse_direction_has_the_numbers_of_rfc_5103() {
        let template =
            Template::parse("%IN_BYTES %OUT_BYTES %reverseTcpControlBits %reverseQuaffLostOctetCount")
                .unwrap();
        let plan = template.plan(Dialect::Ipfix, false, true).unwrap();
        let numbers: Vec<(u32, u16)> = plan.steps.iter().map(|step| (step.pen, step.id)).collect();
        assert_eq!(numbers, [(0, 1), (REVERSE, 1), (REVERSE, 6), (PRIVATE, REVERSE_BIT | 2)]);
        let uniflow = template.plan(Dialect::Ipfix, false, false).unwrap();
        assert_eq!(uniflow.steps.len(), 1);
    }

    #[test]
    fn fields_without_a_number_in_v9_are_refused() {
        for name in ["%quaffLostOctetCount", "%flowStartNanoseconds", "%reverseMinimumTTL"] {
            let template = Template::parse(name).unwrap();
            assert!(
                matches!(template.plan(Dialect::V9, false, true), Err(TemplateError::NotInV9(_))),
                "{name}"
            );
        }
        let out = Template::parse("%OUT_PKTS").unwrap().plan(Dialect::V9, false, true).unwrap();
        assert_eq!(out.steps[0].id, 24);
    }

    #[test]
    fn key_fields_are_marked_by_their_place() {
        let template =
            Template::parse("%IN_BYTES %IPV4_SRC_ADDR %SRC_VLAN %SRC_TOS %dot1qCustomerVlanId").unwrap();
        let plan = template.plan(Dialect::Ipfix, false, false).unwrap();
        assert_eq!(plan.key_bits(&KeyPlan::default()), 0b1_0110);
    }

    #[test]
    fn extras_are_asked_for_by_name_only() {
        assert!(!Template::default_for(Dialect::Ipfix).extras().is_any());
        let plan = Template::parse("%TLS_SERVER_NAME %MIN_IP_PKT_LEN").unwrap().extras();
        assert!(plan.application && plan.statistics && plan.payload_bytes == 0 && !plan.tcp && !plan.macs);
        let plan = Template::parse("%quaffFirstPayload %TLS_SERVER_NAME").unwrap().extras();
        assert!(plan.application && plan.payload_bytes == 64 && !plan.ack_times);
        let plan = Template::parse("%reverseQuaffAckTimeMinMicroseconds %quaffApplicationProtocols").unwrap();
        let (plan, is_biflow) = (plan.extras(), plan.is_biflow());
        assert!(plan.ack_times && plan.application && is_biflow && !plan.tcp);
    }

    #[test]
    fn the_ntopng_macro_is_known_by_name() {
        assert!(Template::parse("@NTOPNG@").unwrap().fields.len() > 20);
    }

    proptest! {
        /// Any text is parsed or refused, and any parsed template compiles for IPFIX.
        #[test]
        fn any_text_is_read_or_refused(text in "[%A-Za-z0-9_@ \r\n\u{e4}]{0,200}") {
            if let Ok((template, _)) = Template::parse_known(&text) {
                for (is_ipv6, is_biflow) in [(false, false), (true, true)] {
                    prop_assert!(template.plan(Dialect::Ipfix, is_ipv6, is_biflow).is_ok());
                }
            }
        }
    }
}
