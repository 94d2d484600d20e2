//! A machine whose settings are a map.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use tempfile::TempDir;

struct Fake {
    values: RefCell<HashMap<String, String>>,
    boot: RefCell<String>,
    netns: Cell<u64>,
    index: Cell<u32>,
    refuses: RefCell<Vec<String>>,
    dir: TempDir,
}

impl Fake {
    fn new() -> Self {
        let fake = Self {
            values: RefCell::default(),
            boot: RefCell::new("first".into()),
            netns: Cell::new(7),
            index: Cell::new(3),
            refuses: RefCell::default(),
            dir: tempfile::tempdir().unwrap(),
        };
        for (setting, value) in [(ring(), "256"), (gro(), "on"), (governor(), "powersave"), (irq(), "3")] {
            fake.put(&setting, value);
        }
        fake
    }

    fn put(&self, setting: &Setting, value: &str) {
        self.values.borrow_mut().insert(setting.to_string(), value.into());
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("run/doctor.json")
    }

    fn fix(&self, changes: &[(Setting, &str)]) -> Vec<Done> {
        let change =
            |(setting, to): &(Setting, &str)| Change { setting: setting.clone(), to: (*to).to_owned() };
        super::fix_with(&changes.iter().map(change).collect::<Vec<_>>(), self, &self.file()).unwrap()
    }

    fn undo(&self) -> Vec<Done> {
        super::undo_with(self, &self.file()).unwrap()
    }

    #[track_caller]
    fn assert_is(&self, setting: &Setting, value: &str) {
        assert_eq!(self.get(setting).unwrap(), value, "{setting}");
    }
}

impl Backend for Fake {
    fn get(&self, setting: &Setting) -> Result<String> {
        let value = self.values.borrow().get(&setting.to_string()).cloned();
        let gone =
            || quaff_os::Error::new(format!("read {setting}"), io::Error::from(io::ErrorKind::NotFound));
        Ok(value.ok_or_else(gone)?)
    }

    fn set(&self, setting: &Setting, value: &str) -> Result<()> {
        if self.refuses.borrow().contains(&setting.to_string()) {
            return Err(Error::Plan("permission denied".into()));
        }
        // Rings of this driver are multiples of 64, at the most 4096.
        if matches!(setting, Setting::Ring(_)) {
            self.put(&irq(), "0-7");
        }
        let value = match setting {
            Setting::Ring(_) => (value.parse::<u32>().unwrap().next_multiple_of(64).min(4096)).to_string(),
            _ => value.to_owned(),
        };
        self.put(setting, &value);
        Ok(())
    }

    /// This driver forgets where its interrupt went.
    fn related(&self, setting: &Setting) -> Vec<Setting> {
        if matches!(setting, Setting::Ring(_)) { vec![irq(), gro()] } else { Vec::new() }
    }

    fn index(&self, _: &str) -> Result<u32> {
        Ok(self.index.get())
    }

    fn netns(&self) -> Result<u64> {
        Ok(self.netns.get())
    }

    fn has_netns(&self, netns: u64) -> bool {
        netns == 7 && self.index.get() < 5
    }

    fn boot(&self) -> Result<String> {
        Ok(self.boot.borrow().clone())
    }
}

fn ring() -> Setting {
    Setting::Ring("eth0".into())
}

fn irq() -> Setting {
    Setting::Irq(100, "eth0-rx".into())
}

fn gro() -> Setting {
    Setting::Feature("eth0".into(), "rx-gro".into())
}

fn governor() -> Setting {
    Setting::File("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor".into())
}

#[test]
fn all_settings_are_restored() {
    let fake = Fake::new();
    let fixed = fake.fix(&[(ring(), "4000"), (gro(), "off"), (governor(), "performance")]);
    assert!(fixed.iter().all(|done| done.refused.is_none()), "{fixed:?}");
    assert_eq!(
        (fixed[2].was.as_str(), fixed[2].now.as_deref()),
        ("256", Some("4032")),
        "as the driver rounds it"
    );
    fake.assert_is(&gro(), "off");
    let undone = fake.undo();
    assert_eq!(
        undone.iter().map(|done| done.now.as_deref().unwrap_or("?")).collect::<Vec<_>>(),
        ["256", "powersave", "on"]
    );
    for (setting, value) in [(ring(), "256"), (gro(), "on"), (governor(), "powersave")] {
        fake.assert_is(&setting, value);
    }
    assert!(!fake.file().exists());
    assert_eq!(fake.undo(), [], "there is nothing more");
}

#[test]
fn a_second_fix_keeps_the_first_values() {
    let fake = Fake::new();
    fake.fix(&[(ring(), "1024")]);
    fake.fix(&[(ring(), "1024"), (gro(), "off")]);
    fake.fix(&[(ring(), "4096")]);
    fake.undo();
    fake.assert_is(&ring(), "256");
    fake.assert_is(&gro(), "on");
}

#[test]
fn settings_that_a_driver_resets_meanwhile_are_restored() {
    let fake = Fake::new();
    fake.fix(&[(ring(), "512"), (irq(), "2"), (gro(), "off")]);
    fake.assert_is(&irq(), "2");
    fake.assert_is(&gro(), "off");
    fake.undo();
    fake.assert_is(&irq(), "3");
    fake.assert_is(&ring(), "256");
    // A setting that cannot be changed is reported, and those after it are changed all the same.
    fake.refuses.borrow_mut().push(irq().to_string());
    let fixed = fake.fix(&[(ring(), "512")]);
    let refused: Vec<_> = fixed.iter().map(|done| done.refused.is_some()).collect();
    assert_eq!(refused, [false, true], "{fixed:?}");
    fake.assert_is(&irq(), "0-7");
    fake.refuses.borrow_mut().clear();
    fake.undo();
    fake.assert_is(&irq(), "3");
    // Another's setting related it stays where it is, both ways.
    fake.put(&irq(), "5");
    fake.fix(&[(ring(), "512")]);
    fake.assert_is(&irq(), "5");
    fake.undo();
    fake.assert_is(&irq(), "5");
}

#[test]
fn a_missing_setting_is_reported_once() {
    let fake = Fake::new();
    fake.fix(&[(governor(), "performance"), (gro(), "off")]);
    fake.values.borrow_mut().remove(&governor().to_string());
    let undone = fake.undo();
    assert!(undone.iter().any(|done| done.refused.as_deref() == Some("it no longer exists")), "{undone:?}");
    assert!(!fake.file().exists());
}

#[test]
fn an_equal_value_is_not_recorded() {
    let fake = Fake::new();
    let fixed = fake.fix(&[(ring(), "256")]);
    assert_eq!((fixed[0].was.as_str(), fixed[0].now.as_deref()), ("256", Some("256")));
    assert_eq!(fake.undo(), []);
}

#[test]
fn a_refused_change_is_reported_and_not_recorded() {
    let fake = Fake::new();
    fake.refuses.borrow_mut().push(gro().to_string());
    let fixed = fake.fix(&[(gro(), "off"), (Setting::Rss("eth0".into()), "0,1"), (ring(), "512")]);
    let refused: Vec<_> = fixed.iter().map(|done| done.refused.is_some()).collect();
    assert_eq!(refused, [true, true, false], "{fixed:?}");
    assert_eq!(fake.undo().len(), 1);
}

#[test]
fn a_setting_that_cannot_be_restored_stays_recorded() {
    let fake = Fake::new();
    fake.fix(&[(gro(), "off"), (ring(), "512")]);
    fake.refuses.borrow_mut().push(gro().to_string());
    let undone = fake.undo();
    assert_eq!(undone.iter().filter(|done| done.refused.is_some()).count(), 1, "{undone:?}");
    fake.assert_is(&ring(), "256");
    fake.refuses.borrow_mut().clear();
    assert_eq!(fake.undo().len(), 1, "once more, when it may");
    fake.assert_is(&gro(), "on");
}

#[test]
fn a_setting_that_another_program_has_changed_is_kept() {
    let fake = Fake::new();
    fake.fix(&[(ring(), "512"), (gro(), "off")]);
    fake.put(&ring(), "2048");
    fake.put(&gro(), "on");
    let undone = fake.undo();
    let words = undone.iter().find(|done| done.what.contains("ring")).unwrap().refused.as_ref().unwrap();
    assert!(words.contains("2048") && words.contains("256"), "{words}");
    fake.assert_is(&ring(), "2048");
    assert!(!fake.file().exists(), "there is nothing left to do");
}

#[test]
fn a_reboot_is_reported() {
    let fake = Fake::new();
    fake.fix(&[(ring(), "512")]);
    "second".clone_into(&mut fake.boot.borrow_mut());
    fake.put(&ring(), "256");
    let error = super::undo_with(&fake, &fake.file()).unwrap_err().to_string();
    assert!(error.contains("reboot"), "{error}");
    // What a fix finds of another start does not count.
    fake.put(&ring(), "320");
    fake.fix(&[(ring(), "512")]);
    fake.undo();
    fake.assert_is(&ring(), "320");
}

#[test]
fn another_namespace_and_another_interface_are_left_alone() {
    let fake = Fake::new();
    fake.fix(&[(ring(), "512"), (governor(), "performance")]);
    fake.netns.set(8);
    let undone = fake.undo();
    let refused: Vec<_> = undone.iter().map(|done| done.refused.is_some()).collect();
    assert_eq!(refused, [true, false], "the governor is the machine's: {undone:?}");
    fake.netns.set(7);
    fake.index.set(4);
    let undone = fake.undo();
    assert!(undone[0].refused.as_ref().unwrap().contains("no longer exists"), "{undone:?}");
    fake.assert_is(&ring(), "512");
    assert!(!fake.file().exists());
    // A process that has ended owns nothing.
    fake.fix(&[(gro(), "off")]);
    fake.netns.set(8);
    fake.index.set(5);
    let undone = fake.undo();
    assert!(undone[0].refused.as_ref().unwrap().contains("namespace no longer exists"), "{undone:?}");
    assert!(!fake.file().exists());
}

#[test]
fn a_fix_that_was_killed_half_way_is_undone() {
    let fake = Fake::new();
    // What is written before the driver is asked, and no more.
    let half = |text: String| text.replace("\"off\"", "null").replace("\"4032\"", "null");
    let text = |fake: &Fake| half(fs::read_to_string(fake.file()).unwrap());
    fake.fix(&[(gro(), "off"), (ring(), "4000")]);
    let before = text(&fake);
    assert_eq!(before.matches("null").count(), 2, "{before}");
    // Killed before it, or after it: the result of the driver is unknown.
    fake.put(&gro(), "on");
    fs::write(fake.file(), before).unwrap();
    let undone = fake.undo();
    assert!(undone.iter().all(|done| done.refused.is_none()), "{undone:?}");
    fake.assert_is(&gro(), "on");
    fake.assert_is(&ring(), "256");
}

#[test]
fn a_damaged_file_is_an_error_and_stays() {
    let fake = Fake::new();
    fake.fix(&[(gro(), "off")]);
    fs::write(fake.file(), "{").unwrap();
    assert!(super::undo_with(&fake, &fake.file()).is_err());
    let change = Change { setting: ring(), to: "512".into() };
    assert!(super::fix_with(&[change], &fake, &fake.file()).is_err());
    fake.assert_is(&ring(), "256");
    assert_eq!(fs::read_to_string(fake.file()).unwrap(), "{");
}

#[test]
fn without_a_state_file_nothing_is_changed() {
    let fake = Fake::new();
    fs::write(fake.dir.path().join("run"), "no folder").unwrap();
    let change = Change { setting: ring(), to: "512".into() };
    assert!(super::fix_with(&[change], &fake, &fake.file()).is_err());
    fake.assert_is(&ring(), "256");
}
