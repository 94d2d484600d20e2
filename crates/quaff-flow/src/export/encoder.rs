//! Encodes records as messages of one format. Uses no socket, no clock and no sequence numbers.

use super::encode::{VARIABLE_BYTES_MAX, append_record};
use super::image::RecordImage;
use super::message::{Carried, Entry, Message, Oversize, Packer, Version};
use super::options::{self, Statistics, Table, Timeouts};
use super::template::{CopyPlan, Dialect, TEMPLATE_ID_MIN, Template, TemplateError};
use super::time_base::{Stamp, Uptime};
use super::value::{Scene, View};
use super::{ipfix, v5, v9};
use crate::plan::KeyPlan;
use crate::record::FlowRecord;

/// The number of the first template unless the user sets one, as in nProbe.
pub const TEMPLATE_ID: u16 = 257;
/// Number of the template of a file's time window, relative to the first template; those of options are lower.
pub(crate) const WINDOW_TEMPLATE: u16 = 32;
/// The largest number of a first template with which the numbers of all templates, and of a file's time window, fit 16
/// bits.
const TEMPLATE_ID_MAX: u16 = u16::MAX - WINDOW_TEMPLATE;
/// Number of templates of records: both families, with and without the reverse direction. Those of options follow.
const RECORD_TEMPLATES: u16 = 4;

/// The conversations that are exported, if a template has fields of the reverse direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BiflowPolicy {
    #[default]
    All,
    /// Only those with packets of both directions.
    Answered,
    /// Only those with packets of one direction.
    Unanswered,
}

/// The format, the template and the limits of the messages of one exporter.
#[derive(Debug, Clone)]
pub struct EncoderPlan {
    pub version: Version,
    /// Not used by NetFlow v5.
    pub template: Template,
    /// The number of the first template; the others have the next ones.
    pub template_id: u16,
    /// Observation domain of IPFIX, source ID of NetFlow v9.
    pub domain: u32,
    /// Maximum bytes of a message; a transport may limit them further.
    pub bytes_max: usize,
    /// The start of the exporter, ns since 1970.
    pub boot_ns: u64,
    pub key: KeyPlan,
    pub timeouts: Timeouts,
    pub biflows: BiflowPolicy,
}

impl EncoderPlan {
    /// A plan with the defaults of a format.
    pub fn new(version: Version) -> Self {
        let dialect = if version == Version::V9 { Dialect::V9 } else { Dialect::Ipfix };
        Self {
            version,
            template: Template::default_for(dialect),
            template_id: TEMPLATE_ID,
            domain: 0,
            bytes_max: 65_535,
            boot_ns: 0,
            key: KeyPlan::default(),
            timeouts: Timeouts { active_s: 120, idle_s: 30 },
            biflows: BiflowPolicy::All,
        }
    }
}

/// Records that could not be encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unencoded {
    /// The format cannot carry them: IPv6 in NetFlow v5, times after 2106 in NetFlow.
    pub unsuited: Carried,
    /// Longer than a message.
    pub too_long: Carried,
    /// Excluded by the policy on conversations.
    pub by_policy: Carried,
}

/// The encoder of one exporter.
#[derive(Debug)]
pub struct Encoder {
    plan: EncoderPlan,
    scene: Scene,
    format: WireFormat,
    unencoded: Unencoded,
}

#[derive(Debug)]
enum WireFormat {
    V5(v5::Encoder),
    Templated(Box<Templated>),
}

#[derive(Debug)]
struct Templated {
    dialect: Dialect,
    packer: Packer,
    uptime: Uptime,
    /// Indexed by family (IPv4, IPv6), then without (0) and with (1) the reverse direction.
    plans: [[CopyPlan; 2]; 2],
    /// Images of the records of each plan with records of fixed length, made with the first record.
    images: [[Option<RecordImage>; 2]; 2],
    is_biflow: bool,
    /// Conversations without an answer use the template of the others, with zeros.
    is_shared: bool,
    /// A field counts ms since the start of the device.
    has_uptime: bool,
}

impl Encoder {
    /// Compiles the template.
    pub fn new(plan: EncoderPlan, scene: Scene) -> Result<Self, TemplateError> {
        let one_in = scene.sampling.interval;
        if plan.version == Version::V5 && one_in > v5::SAMPLING_MAX {
            return Err(TemplateError::SamplingInV5 { one_in, most: v5::SAMPLING_MAX });
        }
        let format = match plan.version {
            Version::V5 => WireFormat::V5(v5::Encoder::new(plan.boot_ns, plan.bytes_max)),
            Version::V9 => WireFormat::Templated(Box::new(Templated::new(&plan, Dialect::V9)?)),
            Version::Ipfix => WireFormat::Templated(Box::new(Templated::new(&plan, Dialect::Ipfix)?)),
        };
        Ok(Self { plan, scene, format, unencoded: Unencoded::default() })
    }

    /// The format of the messages.
    pub fn version(&self) -> Version {
        self.plan.version
    }

    /// Counts of records that did not become part of a message.
    pub(crate) fn unencoded(&self) -> Unencoded {
        self.unencoded
    }

    /// Encodes a record. If the template has no field of the reverse direction, each direction becomes a record.
    pub fn push(&mut self, record: &FlowRecord, now_ns: u64) {
        let is_answered = record.forward.packets > 0 && record.reverse.packets > 0;
        let is_wanted = match self.plan.biflows {
            BiflowPolicy::All => true,
            BiflowPolicy::Answered => is_answered,
            BiflowPolicy::Unanswered => !is_answered,
        };
        if !is_wanted {
            let carried = Carried { records: 1, packets: record.packets(), bytes: record.bytes() };
            self.unencoded.by_policy += carried;
            return;
        }
        match &mut self.format {
            WireFormat::Templated(templated) if templated.is_biflow => {
                let view = View::whole(record);
                if !templated.takes_times(view) {
                    self.unencoded.unsuited += carried(view, true);
                } else if templated.push(view, &self.scene, &self.plan, now_ns) == Err(Oversize) {
                    self.unencoded.too_long += carried(view, true);
                }
            }
            WireFormat::Templated(templated) => {
                for view in View::directions(record) {
                    if !templated.takes_times(view) {
                        self.unencoded.unsuited += carried(view, false);
                    } else if templated.push(view, &self.scene, &self.plan, now_ns) == Err(Oversize) {
                        self.unencoded.too_long += carried(view, false);
                    }
                }
            }
            WireFormat::V5(encoder) => {
                for view in View::directions(record) {
                    if !encoder.push(view, &self.scene, now_ns) {
                        self.unencoded.unsuited += carried(view, false);
                    }
                }
            }
        }
    }

    /// Completes the message that is being filled.
    pub fn flush(&mut self, now_ns: u64) {
        match &mut self.format {
            WireFormat::Templated(templated) => templated.flush(now_ns),
            WireFormat::V5(encoder) => encoder.flush(&self.scene, now_ns),
        }
    }

    /// Returns the next complete message.
    pub fn pop(&mut self) -> Option<Message> {
        match &mut self.format {
            WireFormat::Templated(templated) => templated.packer.ready.pop_front(),
            WireFormat::V5(encoder) => encoder.ready.pop_front(),
        }
    }

    /// Returns the messages that begin a session, and are repeated over UDP: templates, then the options that do not
    /// change.
    pub fn announce(&self, now_ns: u64) -> Vec<Message> {
        match &self.format {
            WireFormat::Templated(templated) => templated.announce(&self.plan, &self.scene, now_ns),
            WireFormat::V5(_) => Vec::new(),
        }
    }

    /// Limits the following messages, after the MTU of the path has changed.
    pub fn limit(&mut self, bytes_max: usize) {
        match &mut self.format {
            WireFormat::Templated(templated) => templated.packer.limit(bytes_max),
            WireFormat::V5(encoder) => encoder.limit(bytes_max),
        }
    }

    /// The observation domain, or source id.
    pub fn domain(&self) -> u32 {
        self.plan.domain
    }

    /// Encodes the options with counters.
    pub fn statistics(&mut self, statistics: &Statistics, now_ns: u64) {
        if let WireFormat::Templated(templated) = &mut self.format {
            templated.statistics(&self.plan, statistics, now_ns);
        }
    }
}

/// The counts that a record adds to those of a message.
fn carried(view: View<'_>, is_biflow: bool) -> Carried {
    let side = if is_biflow { super::value::FlowSide::Both } else { super::value::FlowSide::Forward };
    let (packets, bytes) = view.count(side);
    Carried { records: 1, packets, bytes }
}

impl Templated {
    fn new(plan: &EncoderPlan, dialect: Dialect) -> Result<Self, TemplateError> {
        if !(TEMPLATE_ID_MIN..=TEMPLATE_ID_MAX).contains(&plan.template_id) {
            return Err(TemplateError::Id { id: plan.template_id, max: TEMPLATE_ID_MAX });
        }
        let is_biflow = plan.template.is_biflow();
        let compiled = |is_ipv6, with_reverse| plan.template.plan(dialect, is_ipv6, with_reverse);
        // NetFlow v9 has one template for both, as collectors expect it. A template without any forward field has only
        // this one, too.
        let is_shared = is_biflow && (dialect == Dialect::V9 || compiled(false, false)?.steps.is_empty());
        let plans = [
            [compiled(false, is_shared)?, compiled(false, true)?],
            [compiled(true, is_shared)?, compiled(true, true)?],
        ];
        for copy in plans.iter().flatten() {
            let mut template = vec![0; ipfix::HEADER_BYTES.max(v9::HEADER_BYTES) + 4];
            ipfix::append_template(&mut template, 0, copy);
            if template.len().max(copy.bytes_min + 24) > plan.bytes_max {
                let (fields, bytes_max) = (copy.steps.len(), plan.bytes_max);
                return Err(TemplateError::TooManyFields { fields, bytes_max });
            }
        }
        let of_uptime = |step: &super::template::Step| step.pen == 0 && matches!(step.element.id, 21 | 22);
        let has_uptime = dialect == Dialect::V9 || plans[0][1].steps.iter().any(of_uptime);
        let packer = Packer::new(dialect, plan.domain, plan.bytes_max);
        Ok(Self {
            dialect,
            packer,
            uptime: Uptime::new(plan.boot_ns),
            plans,
            images: Default::default(),
            is_biflow,
            is_shared,
            has_uptime,
        })
    }

    /// Returns whether the times of a record fit: the header of NetFlow v9 has seconds of 32 bits.
    fn takes_times(&self, view: View<'_>) -> bool {
        let last_ns = || view.times(super::value::FlowSide::Both).unwrap_or_default().1;
        self.dialect != Dialect::V9 || Uptime::takes(last_ns())
    }

    /// The family and the direction of a record, as indices of its plan.
    fn plan_of(&self, view: View<'_>) -> (usize, usize) {
        let with_reverse = self.is_biflow && (view.record.reverse.packets > 0 || self.is_shared);
        (usize::from(view.source().is_ipv6()), usize::from(with_reverse))
    }

    /// The number of the template of a plan.
    fn template_id(plan: &EncoderPlan, family: usize, with_reverse: usize) -> u16 {
        // Without a reverse direction the first two numbers are used, as in nProbe.
        plan.template_id + (family + 2 * with_reverse) as u16
    }

    fn options_id(plan: &EncoderPlan, table: Table) -> u16 {
        plan.template_id + RECORD_TEMPLATES + table as u16
    }

    fn stamp(&self, now_ns: u64) -> Stamp {
        Stamp { now_ns, uptime: self.uptime }
    }

    /// The stamp of an announcement, which may have a time base of its own, because no record in it uses the base.
    fn announcing(&self, now_ns: u64) -> Stamp {
        let is_held = self.uptime.holds(now_ns, now_ns);
        Stamp { now_ns, uptime: if is_held { self.uptime } else { Uptime::moved_to(now_ns) } }
    }

    fn push(
        &mut self,
        view: View<'_>,
        scene: &Scene,
        plan: &EncoderPlan,
        now_ns: u64,
    ) -> Result<(), Oversize> {
        let (family, with_reverse) = self.plan_of(view);
        if self.has_uptime {
            self.fit_uptime(view, now_ns);
        }
        let (stamp, copy) = (self.stamp(now_ns), &self.plans[family][with_reverse]);
        let entry = Entry {
            set: Self::template_id(plan, family, with_reverse),
            bytes_min: copy.bytes_min,
            units: 1,
            carried: carried(view, self.is_biflow),
        };
        let boot_ms = self.uptime.boot_ms;
        if copy.is_fixed {
            let image = &mut self.images[family][with_reverse];
            let image = image.get_or_insert_with(|| RecordImage::new(copy, view, scene, boot_ms));
            let write = |out: &mut Vec<u8>| image.append(out, copy, view, scene, boot_ms);
            return self.packer.append(entry, stamp, write);
        }
        let fields_max = copy.variable_bytes_max(self.packer.record_bytes_max());
        let write =
            |most: usize| move |out: &mut Vec<u8>| append_record(out, copy, view, scene, boot_ms, most);
        match self.packer.append(entry, stamp, write(VARIABLE_BYTES_MAX)) {
            // Names are chosen by the hosts that are metered: a long one is truncated, so that it cannot hide its flow.
            Err(Oversize) if fields_max > 0 => self.packer.append(entry, stamp, write(fields_max)),
            appended => appended,
        }
    }

    /// Moves the time base if the times of a flow do not fit it. The header of NetFlow v9 has the base, so the message
    /// ends.
    fn fit_uptime(&mut self, view: View<'_>, now_ns: u64) {
        let (first_ns, last_ns) = view.times(super::value::FlowSide::Both).unwrap_or_default();
        if self.uptime.holds(first_ns, last_ns) {
            return;
        }
        if self.dialect == Dialect::V9 {
            self.flush(now_ns);
        }
        self.uptime = Uptime::moved_to(first_ns);
    }

    fn flush(&mut self, now_ns: u64) {
        let stamp = self.stamp(now_ns);
        self.packer.flush(stamp);
    }

    /// The templates of records that can occur: index of the family, index of the direction.
    fn used(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let directions: &[usize] = match (self.is_biflow, self.is_shared) {
            (false, _) => &[0],
            (true, true) => &[1],
            (true, false) => &[0, 1],
        };
        directions.iter().flat_map(|with_reverse| [(0, *with_reverse), (1, *with_reverse)])
    }

    fn announce(&self, plan: &EncoderPlan, scene: &Scene, now_ns: u64) -> Vec<Message> {
        let mut out =
            Announcement { packer: self.packer.another(), stamp: self.announcing(now_ns), scene, plan };
        let (templates, options) = match self.dialect {
            Dialect::V9 => (v9::TEMPLATES, v9::OPTIONS_TEMPLATES),
            Dialect::Ipfix => (ipfix::TEMPLATES, ipfix::OPTIONS_TEMPLATES),
        };
        for (family, with_reverse) in self.used() {
            let id = Self::template_id(plan, family, with_reverse);
            let copy = &self.plans[family][with_reverse];
            out.append(templates, 0, |out| match self.dialect {
                Dialect::V9 => v9::append_template(out, id, copy),
                Dialect::Ipfix => ipfix::append_template(out, id, copy),
            });
        }
        for table in Table::ALL {
            let id = Self::options_id(plan, table);
            match (self.dialect, table.v9()) {
                (Dialect::Ipfix, _) => {
                    let (scopes, fields) = table.ipfix(scene.sampling);
                    out.append(options, 0, |out| ipfix::append_options_template(out, id, scopes, &fields));
                }
                (Dialect::V9, Some((scope, fields))) => {
                    out.append(options, 0, |out| v9::append_options_template(out, id, scope, fields));
                }
                (Dialect::V9, None) => {}
            }
        }
        match self.dialect {
            Dialect::V9 => out.describe_v9(),
            Dialect::Ipfix => self.describe(&mut out),
        }
        out.packer.flush(out.stamp);
        out.packer.ready.into()
    }

    /// Appends the options of IPFIX that do not change in a run.
    fn describe(&self, out: &mut Announcement<'_>) {
        let plan = out.plan;
        out.describe_interfaces(false);
        for (family, with_reverse) in self.used() {
            let bits = self.plans[family][with_reverse].key_bits(&plan.key);
            let template = Self::template_id(plan, family, with_reverse);
            out.append(Self::options_id(plan, Table::Keys), 1, |out| {
                options::append_keys(out, template, bits)
            });
        }
        let scene = out.scene;
        out.append(Self::options_id(plan, Table::Sampler), 1, |out| options::append_sampler(out, scene));
        let boot_ms = self.uptime.boot_ms;
        out.append(Self::options_id(plan, Table::Timeouts), 1, |out| {
            options::append_timeouts(out, plan.domain, plan.timeouts, boot_ms);
        });
        for row in options::type_rows() {
            out.append(Self::options_id(plan, Table::Types), 1, |out| options::append_type(out, &row));
        }
    }

    fn statistics(&mut self, plan: &EncoderPlan, statistics: &Statistics, now_ns: u64) {
        let (id, domain) = (|table| Self::options_id(plan, table), plan.domain);
        self.append_options(id(Table::Metering), now_ns, |out| {
            options::append_metering(out, domain, statistics)
        });
        if self.dialect == Dialect::V9 {
            return self.flush(now_ns);
        }
        let ledger = &statistics.ledger;
        self.append_options(id(Table::Reliability), now_ns, |out| {
            options::append_reliability(out, domain, ledger);
        });
        self.append_options(id(Table::Exporting), now_ns, |out| {
            options::append_exporting(out, domain, &statistics.not_sent);
        });
        self.append_options(id(Table::Ledger), now_ns, |out| options::append_ledger(out, domain, ledger));
        self.flush(now_ns);
    }

    /// Appends a record of options with counters; it is shorter than any message.
    fn append_options(&mut self, set: u16, now_ns: u64, write: impl Fn(&mut Vec<u8>)) {
        let stamp = self.stamp(now_ns);
        let entry = Entry { set, bytes_min: 4, units: 1, carried: Carried::default() };
        let _ = self.packer.append(entry, stamp, write);
    }
}

/// The messages of one announcement.
struct Announcement<'a> {
    packer: Packer,
    stamp: Stamp,
    scene: &'a Scene,
    plan: &'a EncoderPlan,
}

impl Announcement<'_> {
    /// Appends a record of templates or options. One that is longer than a message is omitted: a template with so many
    /// fields that [`Encoder::new`] refuses it, or the name of an interface.
    fn append(&mut self, set: u16, units: u32, write: impl Fn(&mut Vec<u8>)) {
        let entry = Entry { set, bytes_min: 4, units, carried: Carried::default() };
        let _ = self.packer.append(entry, self.stamp, write);
    }

    fn describe_interfaces(&mut self, is_v9: bool) {
        let id = Templated::options_id(self.plan, Table::Interfaces);
        for interface in &self.scene.interfaces {
            self.append(id, 1, |out| {
                options::append_interface(
                    out,
                    interface.index,
                    &interface.name,
                    &interface.description,
                    is_v9,
                );
            });
        }
    }

    /// Appends the options of NetFlow v9 that do not change in a run.
    fn describe_v9(&mut self) {
        self.describe_interfaces(true);
        let (plan, scene) = (self.plan, self.scene);
        self.append(Templated::options_id(plan, Table::Sampler), 1, |out| {
            options::append_sampling_v9(out, plan.domain, scene, plan.timeouts);
        });
    }
}
