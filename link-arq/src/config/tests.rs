// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use std::{io::Write, time::Duration};

use arq_proto::{CongestionConfig, FecConfig};

use super::*;

fn parse(locator: &str) -> Result<LinkConfig, ConfigError> {
    LinkConfig::parse(&locator.parse().unwrap())
}

fn error(locator: &str) -> String {
    parse(locator).unwrap_err().to_string()
}

fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("arq-config-{}-{name}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What a key means nothing without.
fn needed_by(key: &Key) -> &'static str {
    match key.name {
        "cc_window" => "cc=constant;",
        _ => "",
    }
}

/// The configuration with that and without the key itself.
fn without(key: &Key) -> LinkConfig {
    match needed_by(key).strip_suffix(';') {
        Some(needed) => parse(&format!("arq/localhost:7447#{needed}")).unwrap(),
        None => parse("arq/localhost:7447").unwrap(),
    }
}

/// Reads a default of the table back through the parser of its key.
#[test]
fn the_defaults_of_the_table_are_those_of_the_code() {
    let neutral = ["none", "any", "all"];
    for key in KEYS.iter().filter(|key| !neutral.contains(&key.default) || key.name == "window") {
        let mark = if key.section == Section::Metadata { '?' } else { '#' };
        let needed = needed_by(key);
        let locator = format!("arq/localhost:7447{mark}{needed}{}={}", key.name, key.default);
        assert_eq!(parse(&locator).unwrap(), without(key), "{}", key.name);
    }
}

#[test]
fn every_key_changes_something() {
    for key in KEYS.iter().filter(|key| !["config", "prio"].contains(&key.name)) {
        let value = match key.value {
            Value::Number { min, max, .. } => {
                // One that is neither the default nor in conflict with another key's default.
                let candidates = [min, max, 20_000, 2_000];
                let fits = |n: &u64| {
                    (min..=max).contains(n) && n.to_string() != key.default && {
                        let needed = needed_by(key);
                        let locator = format!("arq/localhost:7447#{needed}{}={n}", key.name);
                        parse(&locator).is_ok()
                    }
                };
                candidates.into_iter().find(fits).unwrap().to_string()
            }
            Value::Word(words) => {
                (*words.iter().find(|word| **word != key.default).unwrap()).to_owned()
            }
            Value::Text(_) if key.name == "dscp" => "0x10|2".to_owned(),
            Value::Text(_) if key.name == "fec" => "off".to_owned(),
            Value::Text(_) if key.name == "duplicate" => "1-3".to_owned(),
            Value::Text(_) if key.name == "metrics" => "9464".to_owned(),
            Value::Text(_) => "x".to_owned(),
        };
        let mark = if key.section == Section::Metadata { '?' } else { '#' };
        let needed = needed_by(key);
        let locator = format!("arq/localhost:7447{mark}{needed}{}={value}", key.name);
        let explicit = parse(&locator).unwrap();
        assert_ne!(explicit, without(key), "{}={value}", key.name);
    }
}

#[test]
fn values_outside_their_range_are_refused() {
    for key in KEYS {
        let Value::Number { min, max, .. } = key.value else { continue };
        for bad in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
            let text = error(&format!("arq/localhost:7447#{}={bad}", key.name));
            let expected = format!("{}={bad}", key.name);
            assert!(text.contains(&expected) && text.contains(&format!("{min}..={max}")), "{text}");
        }
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_valid_ones() {
    let text = error("arq/localhost:7447#mtuu=1200");
    assert!(text.contains("`mtuu`") && text.contains("mtu, chunk, fec, cc"), "{text}");
    assert!(text.contains("exit_on_failure, retry_period_init_ms"), "{text}");
    let text = error("arq/localhost:7447?reliable=1");
    assert!(text.contains("`reliable`") && text.contains("rel, prio, mixed_rel"), "{text}");
    // A key of the other part of the locator is not known in this one.
    assert!(error("arq/localhost:7447?mtu=1200").contains("`mtu`"));
    assert!(error("arq/localhost:7447#rel=1").contains("`rel`"));
}

/// zenoh reads these of any endpoint.
#[test]
fn zenohs_own_keys_are_left_to_zenoh() {
    let zenohs = "exit_on_failure=false;retry_period_increase_factor=1.5;retry_period_init_ms=100;\
                  retry_period_max_ms=4000";
    let link = parse(&format!("arq/localhost:7447#mtu=1400;{zenohs}")).unwrap();
    assert_eq!(link, parse("arq/localhost:7447#mtu=1400").unwrap());
    for key in ZENOH_KEYS {
        assert!(zenohs.contains(key), "{key}");
        let path = file(key, &format!("{{ {key}: 1 }}"));
        let text = error(&format!("arq/localhost:7447#config={path}"));
        assert!(text.contains(&format!("`{key}` is zenoh's")), "{text}");
        assert!(error(&format!("arq/localhost:7447?{key}=1")).contains("unknown key"));
    }
}

#[test]
fn a_bad_value_is_an_error_that_says_what_is_expected() {
    let text = error("arq/localhost:7447#mtu=100");
    assert_eq!(text, "`mtu=100` is not valid: expected 576..=65507 bytes, or auto");
    let text = error("arq/localhost:7447#cc=vegas");
    assert_eq!(text, "`cc=vegas` is not valid: expected tolerant, cubic, aimd, constant");
    let text = error("arq/localhost:7447#max_rate=10");
    assert_eq!(text, "`max_rate=10` is not valid: expected 8000..=1000000000000 bit/s, or none");
    let text = error("arq/localhost:7447#window=0");
    assert_eq!(text, "`window=0` is not valid: expected 1..=1048576 packets, or none");
    for bad in ["0", "101", "on", "-1"] {
        let text = error(&format!("arq/localhost:7447#fec={bad}"));
        assert_eq!(text, format!("`fec={bad}` is not valid: expected off, auto, 1..=100"));
    }
    assert!(error("arq/localhost:7447#dscp=300").contains("dscp=300"));
    assert!(error("arq/localhost:7447?prio=9-1").contains("prio=9-1"));
}

#[test]
fn fec_is_a_word_or_a_percentage() {
    for (value, fec) in [
        ("off", FecConfig::Off),
        ("auto", FecConfig::Auto),
        ("1", FecConfig::Percent(1)),
        ("100", FecConfig::Percent(100)),
    ] {
        let config = parse(&format!("arq/localhost:7447#fec={value}")).unwrap();
        assert_eq!(config.protocol.fec, fec);
    }
}

#[test]
fn metrics_are_served_on_this_host_alone_unless_told() {
    let metrics = |value: &str| parse(&format!("arq/localhost:7447#metrics={value}"));
    for (value, address) in [
        ("9464", "127.0.0.1:9464"),
        ("127.0.0.1:9464", "127.0.0.1:9464"),
        ("0.0.0.0:1", "0.0.0.0:1"),
        ("[::1]:65535", "[::1]:65535"),
    ] {
        assert_eq!(metrics(value).unwrap().metrics, Some(address.parse().unwrap()));
    }
    for bad in ["0", "65536", "127.0.0.1:0", "127.0.0.1", "localhost:9464", "on"] {
        let text = metrics(bad).unwrap_err().to_string();
        let expected = "expected ip:port, or a port of 127.0.0.1";
        assert!(text.contains(&format!("`metrics={bad}`")) && text.contains(expected), "{text}");
    }
}

/// The table of keys is stricter: this is what the protocol says of what gets past it.
#[test]
fn errors_of_the_protocol_name_keys() {
    let zero = Duration::ZERO;
    type Mistake = fn(&mut Config);
    let mistakes: [(&str, Mistake); 9] = [
        ("mtu", |config| config.mtu = Some(0)),
        ("chunk", |config| config.chunk_bytes = Some(0)),
        ("max_rate", |config| config.max_rate_bps = Some(0)),
        ("window", |config| config.window_packets = Some(0)),
        ("lane_window", |config| config.lane_window_bytes = 0),
        ("rx_window", |config| config.connection_window_bytes = 0),
        ("cc_window", |config| {
            config.congestion = CongestionConfig::Constant { window_bytes: 0 };
        }),
        ("queue_bytes", |config| config.queue_bytes = Some(0)),
        ("fec", |config| config.fec = FecConfig::Percent(0)),
    ];
    for (key, mistake) in mistakes {
        let mut link = LinkConfig::default();
        mistake(&mut link.protocol);
        let text = link.check().unwrap_err().to_string();
        assert!(text.starts_with(&format!("`{key}`=0 is outside")), "{key}: {text}");
    }
    type Field = fn(&mut Config) -> &mut Duration;
    let durations: [(&str, Field); 4] = [
        ("queue_age_ms", |config| &mut config.queue_age),
        ("keep_alive_ms", |config| &mut config.keep_alive),
        ("idle_timeout_ms", |config| &mut config.idle_timeout),
        ("handshake_timeout_ms", |config| &mut config.handshake_timeout),
    ];
    for (key, duration) in durations {
        let mut link = LinkConfig::default();
        *duration(&mut link.protocol) = zero;
        let text = link.check().unwrap_err().to_string();
        assert!(text.starts_with(&format!("`{key}`=0ns is outside")), "{key}: {text}");
    }
}

#[test]
fn what_contradicts_itself_is_an_error() {
    let text = error("arq/localhost:7447#iface=lo;bind=127.0.0.1:0");
    assert!(text.contains("`iface` and `bind`"), "{text}");
    for cc in ["", "cc=tolerant;", "cc=cubic;", "cc=aimd;"] {
        let text = error(&format!("arq/localhost:7447#{cc}cc_window=100000"));
        assert!(text.contains("cc_window") && text.contains("cc=constant"), "{text}");
    }
    let text = error("arq/localhost:7447#keep_alive_ms=20000");
    assert_eq!(text, "`idle_timeout_ms` must be at least twice `keep_alive_ms`");
    for (keys, one, other) in [
        ("?rel=0;mixed_rel=1", "`rel=0`", "`mixed_rel=1`"),
        ("?rel=0;multistream=0", "`rel=0`", "`multistream=0`"),
    ] {
        let text = error(&format!("arq/localhost:7447{keys}"));
        assert!(text.contains(one) && text.contains(other), "{text}");
    }
    for keys in ["?rel=0;mixed_rel=0", "?rel=0;multistream=1"] {
        parse(&format!("arq/localhost:7447{keys}")).unwrap();
    }
}

#[test]
fn the_locator_wins_over_the_file_and_the_file_over_the_preset() {
    let path =
        file("layers", "{ preset: 'satellite', mtu: 1000, queue_age_ms: 70, reorder: false }");
    let link = parse(&format!("arq/localhost:7447#config={path};mtu=900")).unwrap();
    assert_eq!(link.protocol.mtu, Some(900));
    assert_eq!(link.protocol.queue_age, Duration::from_millis(70));
    assert!(!link.protocol.reorder);
    assert_eq!(link.protocol.keep_alive, Duration::from_secs(3));
    // A preset in the locator replaces the file's, and stays beneath the file's values.
    let link = parse(&format!("arq/localhost:7447#config={path};preset=v2v")).unwrap();
    assert_eq!(link.protocol.keep_alive, Duration::from_millis(250));
    assert_eq!(link.protocol.queue_age, Duration::from_millis(70));
}

#[test]
fn a_bad_file_is_an_error_that_names_it() {
    let unknown = file("unknown", "{ mtuu: 1000 }");
    let text = error(&format!("arq/localhost:7447#config={unknown}"));
    assert!(text.contains(&unknown) && text.contains("`mtuu`"), "{text}");
    let nested = file("nested", "{ config: 'other' }");
    assert!(error(&format!("arq/localhost:7447#config={nested}")).contains("another"));
    let broken = file("broken", "{ mtu: ");
    assert!(error(&format!("arq/localhost:7447#config={broken}")).contains(&broken));
    assert!(error("arq/localhost:7447#config=/does/not/exist").contains("/does/not/exist"));
}

#[test]
fn a_bad_value_in_a_file_is_an_error_that_says_what_is_expected() {
    for (number, (pair, text)) in [
        ("mtu: -1", "`mtu=-1` is not valid: expected 576..=65507 bytes, or auto"),
        ("mtu: 1200.5", "`mtu=1200.5` is not valid: expected 576..=65507 bytes, or auto"),
        ("linger_ms: true", "`linger_ms=true` is not valid: expected 0..=86400000 ms"),
        ("max_rate: 1e15", "`max_rate=1000000000000000` is not valid: expected 8000..="),
        ("cc: 1", "`cc=1` is not valid: expected tolerant, cubic, aimd, constant"),
        ("deadline_ms: null", "`deadline_ms=null` is not valid: expected 1..=3600000 ms, or none"),
        ("iface: null", "`iface=null` is not valid: expected a network interface"),
        ("iface: ['lo']", "`iface=a list or an object` is not valid: expected a network"),
        ("mtu: { auto: 1 }", "`mtu=a list or an object` is not valid: expected 576..=65507"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = file(&format!("value-{number}"), &format!("{{ {pair} }}"));
        let got = error(&format!("arq/localhost:7447#config={path}"));
        assert!(got.contains(&path) && got.contains(text), "{pair}: {got}");
    }
    let path = file("exponent", "{ max_rate: 1e9 }");
    let link = parse(&format!("arq/localhost:7447#config={path}")).unwrap();
    assert_eq!(link.protocol.max_rate_bps, Some(1_000_000_000));
}

#[test]
fn every_preset_is_valid_and_all_but_wifi_change_something() {
    let by_default = parse("arq/localhost:7447").unwrap();
    let preset = KEYS.iter().find(|key| key.name == "preset").unwrap();
    let Value::Word(names) = preset.value else { panic!("presets are words") };
    let mut seen = vec![by_default];
    assert_eq!(parse("arq/localhost:7447#preset=wifi").unwrap(), seen[0]);
    for name in names.iter().filter(|name| **name != "wifi") {
        let link = parse(&format!("arq/localhost:7447#preset={name}")).unwrap();
        assert!(!seen.contains(&link), "{name}");
        seen.push(link);
    }
}

#[test]
fn a_scheme_sets_two_knobs_and_explicit_ones_win() {
    let link = parse("arq/localhost:7447#scheme=stop-and-wait").unwrap();
    assert_eq!(link.protocol.window_packets, Some(1));
    let link = parse("arq/localhost:7447#scheme=go-back-n;window=7").unwrap();
    assert_eq!((link.protocol.window_packets, link.protocol.reorder), (Some(7), false));
}

#[test]
fn congestion_keys_combine() {
    let congestion =
        |keys: &str| parse(&format!("arq/localhost:7447#{keys}")).unwrap().protocol.congestion;
    let constant = |window_bytes| CongestionConfig::Constant { window_bytes };
    assert_eq!(congestion("mtu=1200"), CongestionConfig::Tolerant);
    assert_eq!(congestion("cc=cubic"), CongestionConfig::Cubic);
    assert_eq!(congestion("cc=aimd"), CongestionConfig::Aimd);
    assert_eq!(congestion("cc=constant"), constant(262_144));
    assert_eq!(congestion("cc=constant;cc_window=100000"), constant(100_000));
    let path = file("congestion", "{ cc: 'constant', cc_window: 100000 }");
    assert_eq!(congestion(&format!("config={path};cc=constant")), constant(100_000));
    assert_eq!(congestion(&format!("config={path};cc_window=50000")), constant(50_000));
    assert_eq!(congestion(&format!("config={path};cc=tolerant")), CongestionConfig::Tolerant);
    // Only what comes of all layers must fit together.
    for (number, cc) in ["", "cc: 'cubic', "].iter().enumerate() {
        let path = file(&format!("window-{number}"), &format!("{{ {cc}cc_window: 100000 }}"));
        assert_eq!(congestion(&format!("config={path};cc=constant")), constant(100_000));
        let text = error(&format!("arq/localhost:7447#config={path}"));
        assert!(text.contains("cc_window") && text.contains("cc=constant"), "{text}");
    }
}

#[test]
fn no_type_of_service_is_the_same_as_zero() {
    let path = file("dscp", "{ dscp: '0x10|2' }");
    let tos = |keys: &str| parse(&format!("arq/localhost:7447#{keys}")).unwrap().socket.dscp;
    assert_eq!(tos(&format!("config={path}")), Some(0x12));
    assert_eq!(tos(&format!("config={path};dscp=0")), None);
    assert_eq!(tos("dscp=0x0"), None);
}

#[test]
fn max_rate_is_in_bits_per_second() {
    let link = parse("arq/localhost:7447#max_rate=20000000").unwrap();
    assert_eq!(link.protocol.max_rate_bps, Some(20_000_000));
    assert_eq!(parse("arq/localhost:7447").unwrap().protocol.max_rate_bps, None);
}

/// The table of the documentation: what an endpoint holds, and what its link does.
#[test]
fn what_an_endpoint_holds_decides_what_its_link_does() {
    let certificates = [
        "root_ca_certificate_file=x",
        "listen_certificate_base64=x",
        "listen_private_key_raw=x",
        "connect_certificate_file=x",
        "connect_private_key_base64=x",
    ];
    let psks = ["psk_file=x", "psk_base64=x"];
    let policy = |keys: &[&str]| {
        let locator = format!("arq/localhost:7447#{}", keys.join(";"));
        parse(&locator).map(|link| link.security.policy().unwrap()).map_err(|e| e.to_string())
    };
    let clear = |against_keys| Ok(Policy::Clear { against_keys });
    let by_certificates = |knock| Ok(Policy::Certificates { knock });
    let psk_missing = || Err("`security=psk` needs `psk_file` or `psk_base64`".to_owned());

    // What says nothing of what there is: zenoh gives these to each endpoint.
    let nothing = ["enable_mtls=true", "verify_name_on_connect=false", "webpki_roots=true"];
    for keys in [&nothing[..0], &nothing] {
        let with = |key| policy(&[keys, &[key]].concat());
        assert_eq!(with("security=auto"), clear(false));
        assert_eq!(with("security=off"), clear(false));
        assert_eq!(with("security=tls"), by_certificates(false));
        assert_eq!(with("security=psk"), psk_missing());
    }
    for key in certificates {
        assert_eq!(policy(&[key]), by_certificates(false));
        assert_eq!(policy(&[key, "security=off"]), clear(true));
        assert_eq!(policy(&[key, "security=tls"]), by_certificates(false));
        assert_eq!(policy(&[key, "security=psk"]), psk_missing());
        for psk in psks {
            assert_eq!(policy(&[key, psk]), by_certificates(true));
            assert_eq!(policy(&[key, psk, "security=off"]), clear(true));
            assert_eq!(policy(&[key, psk, "security=tls"]), by_certificates(true));
            assert_eq!(policy(&[key, psk, "security=psk"]), Ok(Policy::Psk));
        }
    }
    for psk in psks {
        assert_eq!(policy(&[psk]), Ok(Policy::Psk));
        assert_eq!(policy(&[psk, "security=off"]), clear(true));
        assert_eq!(policy(&[psk, "security=tls"]), by_certificates(true));
        assert_eq!(policy(&[psk, "security=psk"]), Ok(Policy::Psk));
    }
}

#[test]
fn of_several_ways_to_give_a_value_zenohs_order_counts() {
    let given = |keys: &str| {
        let link = parse(&format!("arq/localhost:7447#{keys}")).unwrap();
        let (key, value, source) = link.security.given("listen_certificate")?;
        Some((key, value.expose().to_owned(), source))
    };
    let (file, base64, raw) =
        ("listen_certificate_file=f", "listen_certificate_base64=b", "listen_certificate_raw=r");
    let wins = |key, value: &str, source| Some((key, value.to_owned(), source));
    let all = format!("{file};{base64};{raw}");
    assert_eq!(given(&all), wins("listen_certificate_raw", "r", Source::Text));
    let two = format!("{file};{base64}");
    assert_eq!(given(&two), wins("listen_certificate_base64", "b", Source::Base64));
    assert_eq!(given(file), wins("listen_certificate_file", "f", Source::File));
    assert_eq!(given("listen_private_key_file=f"), None);
}

#[test]
fn secrets_are_in_no_text() {
    let secret = "hunter2hunter2";
    let keys = KEYS.iter().map(|key| key.name);
    let secrets: Vec<_> = keys.filter(|key| is_secret(key)).collect();
    assert_eq!(secrets.len(), 5, "{secrets:?}");
    for key in secrets {
        let link = parse(&format!("arq/localhost:7447#{key}={secret}")).unwrap();
        assert!(!format!("{link:?}").contains(secret), "{key}");
        for broken in [
            format!("{{ {key}: '{secret}' "),
            format!("{{ {key}: '{secret}', mtu: }}"),
            format!("{{ {key}: '{secret}', mtu: -1 }}"),
            format!("{{ {key}: ['{secret}'] }}"),
            format!("{{ {key}: {secret} }}"),
        ] {
            let path = file(&format!("broken-{key}"), &broken);
            let text = error(&format!("arq/localhost:7447#config={path}"));
            assert!(!text.contains(secret) && text.contains(&path), "{broken}: {text}");
        }
    }
}

#[test]
fn paths_keep_their_order_and_their_marks_through_zenohs_parser() {
    let endpoint: EndPoint =
        "arq/host:7447?prio=1-3#paths=wlan0,wwan0:backup;copies=0".parse().unwrap();
    let config = LinkConfig::parse(&endpoint).unwrap();
    let expected = vec![PathInterface::new("wlan0"), PathInterface::backup("wwan0")];
    assert_eq!(config.paths, Paths::Over(expected));
    assert_eq!(config.protocol.copies_percent, 0);
    let parse = |value: &str| parse(&format!("arq/host:7447#paths={value}")).unwrap().paths;
    assert_eq!(parse("off"), Paths::Off);
    assert_eq!(parse("auto"), Paths::Auto);
    let over =
        |names: &[&str]| Paths::Over(names.iter().copied().map(PathInterface::new).collect());
    assert_eq!(parse("a, b"), over(&["a", "b"]));
    // What nobody has plugged in yet is no error.
    assert_eq!(parse("none-such"), over(&["none-such"]));
}

#[test]
fn a_list_of_paths_that_cannot_be_is_refused_with_what_can() {
    for value in [
        "wlan0,auto",
        "off,wlan0",
        "wlan0:metred",
        "wlan0:",
        "wlan0,,wwan0",
        "a,b,c,d,e",
        "wlan0,wlan0:backup",
    ] {
        let error = error(&format!("arq/host:7447#paths={value}"));
        assert!(error.contains("`paths=") && error.contains("wlan0,eth0:backup"), "{error}");
    }
    for other in ["iface=eth0", "bind=127.0.0.1:0"] {
        for paths in ["a,b", "auto"] {
            let error = error(&format!("arq/host:7447#paths={paths};{other}"));
            assert!(error.contains("`paths`") && error.contains(&other[..4]), "{error}");
        }
    }
}

#[test]
fn a_metered_interface_has_the_rate_of_its_key() {
    let of = |rest: &str| parse(&format!("arq/host:7447#paths=wlan0,wwan0:metered{rest}"));
    for (rest, rate_bps) in
        [("", Some(16_000)), (";metered_rate=1000", Some(1_000)), (";metered_rate=none", None)]
    {
        let expected = vec![PathInterface::new("wlan0"), PathInterface::metered("wwan0", rate_bps)];
        assert_eq!(of(rest).unwrap().paths, Paths::Over(expected));
    }
    for rate in ["999", "1k", "0"] {
        let error = of(&format!(";metered_rate={rate}")).unwrap_err().to_string();
        assert!(error.contains("1000..=1000000000000 bit/s, or none"), "{error}");
    }
}

#[test]
fn priorities_that_leave_twice_are_written_as_zenoh_writes_ranges() {
    let of = |value: &str| parse(&format!("arq/host:7447#paths=a,b;duplicate={value}"));
    let duplicate = |value: &str| of(value).unwrap().protocol.duplicate;
    assert_eq!(duplicate("1-3"), Some(1..=3));
    assert_eq!(duplicate("2"), Some(2..=2));
    assert_eq!(duplicate("none"), None);
    for value in ["", "8", "3-1", "1-9", "commands"] {
        let error = of(value).unwrap_err().to_string();
        assert!(error.contains("`duplicate"), "{error}");
    }
}
