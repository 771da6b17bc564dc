// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is let in, who is not, and what an operator reads of it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{sync::Arc, time::Duration};

use arq_tls::{
    client_config,
    rustls::{
        pki_types::UnixTime, time_provider::TimeProvider, AlertDescription, ClientConfig,
        ServerConfig,
    },
    server_config, ConfigError, Peer, Psks, ServerName, Tls, Trust,
};
use rcgen::{date_time_ymd, CertificateParams, ExtendedKeyUsagePurpose};

mod support;
use support::{handshake, Authority, Identity, Refusal, Side};

const NAME: &str = "router.fleet";

/// A router and a vehicle of one fleet, before anything is wrong.
struct Fleet {
    ca: Authority,
    router: Identity,
    vehicle: Option<Identity>,
    /// What the vehicle trusts, and the router.
    servers: Trust,
    clients: Option<Trust>,
    name: ServerName,
    host: String,
    /// Seconds since 1970 on the clock of both; of this host if there is none.
    clock: Option<u64>,
}

impl Fleet {
    fn new() -> Self {
        let ca = Authority::new("fleet CA");
        Self {
            router: ca.identity(NAME),
            vehicle: Some(ca.identity("vehicle-7")),
            servers: ca.trust(),
            clients: Some(ca.trust()),
            name: ServerName::Asked,
            host: NAME.to_owned(),
            clock: None,
            ca,
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut fleet = Self::new();
        change(&mut fleet);
        fleet
    }

    fn configs(&self) -> (ClientConfig, ServerConfig) {
        let vehicle = self.vehicle.as_ref().map(Identity::own);
        let mut client = client_config(vehicle, &self.servers, &self.name).unwrap();
        let mut server = server_config(self.router.own(), self.clients.as_ref()).unwrap();
        if let Some(seconds) = self.clock {
            client.time_provider = Arc::new(Clock(seconds));
            server.time_provider = Arc::new(Clock(seconds));
        }
        (client, server)
    }

    fn handshake(&self) -> Result<[Side; 2], Refusal> {
        let (client, server) = self.configs();
        handshake(
            &Tls::client(client, self.name.clone(), None),
            &Tls::server(server, None),
            &self.host,
        )
    }
}

#[derive(Debug)]
struct Clock(u64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

fn assert_opens(fleet: &Fleet) -> [Side; 2] {
    let sides = fleet.handshake().unwrap_or_else(|refusal| panic!("{refusal:?}"));
    assert!(sides.iter().all(|side| !side.session.is_handshaking() && side.keys.is_some()));
    sides
}

/// `who` refuses with `alert`, and its text has all of `words`.
fn assert_refused(fleet: &Fleet, who: &str, alert: AlertDescription, words: &[&str]) {
    let (refuses, error) = fleet.handshake().err().unwrap();
    assert_eq!((refuses, error.alert), (who, Some(u8::from(alert))), "{error}");
    for word in words {
        assert!(error.text.contains(word), "`{word}` is not in: {error}");
    }
}

fn with_dates(years: [i32; 2]) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        params.not_before = date_time_ymd(years[0], 1, 1);
        params.not_after = date_time_ymd(years[1], 1, 1);
    }
}

#[test]
fn each_side_learns_who_the_other_one_is() {
    let fleet = Fleet::with(|fleet| {
        fleet.router =
            fleet.ca.identity_with(Some("router.fleet"), &[NAME], with_dates([2020, 2090]));
    });
    let [vehicle, router] = assert_opens(&fleet).map(|side| side.peer().unwrap());
    assert_eq!(vehicle.common_name(), Some("router.fleet"));
    assert_eq!(vehicle.not_after().unwrap(), date_time_ymd(2090, 1, 1));
    assert_eq!(router.common_name(), Some("vehicle-7"));
    assert!(matches!(router, Peer::Certificate { chain, .. } if chain.len() == 1));
}

#[test]
fn without_mutual_authentication_the_client_is_nobody() {
    let fleet = Fleet::with(|fleet| fleet.clients = None);
    let [vehicle, router] = assert_opens(&fleet);
    assert_eq!(vehicle.peer().unwrap().common_name(), Some(NAME));
    assert_eq!(router.peer(), None);
}

#[test]
fn a_certificate_without_common_name_is_as_good() {
    let fleet = Fleet::with(|fleet| {
        fleet.router = fleet.ca.identity_with(None, &[NAME], |_| {});
        fleet.vehicle = Some(fleet.ca.identity_with(None, &[], |_| {}));
    });
    for side in assert_opens(&fleet) {
        assert_eq!(side.peer().unwrap().common_name(), None);
    }
}

#[test]
fn certificates_of_another_authority_are_refused() {
    let other = Authority::new("other CA");
    let fleet = Fleet::with(|fleet| fleet.router = other.identity(NAME));
    let words = [NAME, "comes from O=fleet, CN=other CA", "no authority that this side trusts"];
    assert_refused(&fleet, "client", AlertDescription::UnknownCA, &words);
    let fleet = Fleet::with(|fleet| fleet.vehicle = Some(other.identity("vehicle-7")));
    let words = ["vehicle-7", "comes from O=fleet, CN=other CA"];
    assert_refused(&fleet, "server", AlertDescription::UnknownCA, &words);
}

#[test]
fn an_authority_of_the_same_name_is_another_one() {
    let twin = Authority::new("fleet CA");
    let fleet = Fleet::with(|fleet| fleet.router = twin.identity(NAME));
    let words =
        [NAME, "not signed by the O=fleet, CN=fleet CA", "another authority of the same name"];
    assert_refused(&fleet, "client", AlertDescription::DecryptError, &words);
}

#[test]
fn public_authorities_vouch_only_where_they_are_trusted() {
    let fleet = Fleet::with(|fleet| {
        fleet.servers = Trust::default();
        fleet.servers.add_public_authorities();
    });
    assert_refused(&fleet, "client", AlertDescription::UnknownCA, &[NAME]);
    let fleet = Fleet::with(|fleet| fleet.servers.add_public_authorities());
    assert_opens(&fleet);
}

#[test]
fn expired_certificates_are_refused_with_both_dates() {
    let expired = || with_dates([2020, 2021]);
    let fleet = Fleet::with(|fleet| {
        fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], expired());
    });
    let words =
        ["certificate of router.fleet is not valid after 2021-01-01T00:00:00Z", "clock says 20"];
    assert_refused(&fleet, "client", AlertDescription::CertificateExpired, &words);
    let fleet = Fleet::with(|fleet| {
        fleet.vehicle = Some(fleet.ca.identity_with(Some("vehicle-7"), &[], expired()));
    });
    let words = ["certificate of vehicle-7 is not valid after 2021-01-01T00:00:00Z"];
    assert_refused(&fleet, "server", AlertDescription::CertificateExpired, &words);
}

/// Vehicles boot without a clock.
#[test]
fn a_host_without_a_clock_is_told_what_it_believes() {
    let at = |clock| {
        Fleet::with(|fleet| {
            fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], with_dates([2026, 2030]));
            fleet.clock = Some(clock);
        })
    };
    let expired = AlertDescription::CertificateExpired;
    let words = ["not valid before", "this host's clock says 1970-01-01T00:00:07Z"];
    assert_refused(&at(7), "client", expired, &words);
    // The authority is valid since 1975: now only the router's certificate is not.
    let text = "the certificate of router.fleet is not valid before 2026-01-01T00:00:00Z; \
                this host's clock says 2001-09-09T01:46:40Z";
    assert_refused(&at(1_000_000_000), "client", expired, &[text]);
}

#[test]
fn revoked_certificates_are_refused_whichever_of_the_chain_it_is() {
    let root = Authority::new("root CA");
    let issuing = root.intermediate("issuing CA");
    let identity = |name| {
        let mut identity = issuing.identity(name);
        identity.chain += &issuing.pem;
        identity
    };
    let fleet = |revoked_leaf: bool, revoked_issuer: bool, lists: [bool; 2]| {
        Fleet::with(|fleet| {
            let (router, vehicle) = (identity(NAME), identity("vehicle-7"));
            let leaf = revoked_leaf.then_some(&router.serial);
            let issuer = revoked_issuer.then(|| serial_of(&issuing));
            let by_issuing = issuing.revocation_list(&leaf.into_iter().collect::<Vec<_>>());
            let by_root = root.revocation_list(&issuer.iter().collect::<Vec<_>>());
            fleet.servers = root.trust();
            fleet.clients = Some(root.trust());
            for (list, _) in [by_issuing, by_root].iter().zip(lists).filter(|(_, here)| *here) {
                fleet.servers.add_revocation_lists(list.as_bytes()).unwrap();
            }
            fleet.router = router;
            fleet.vehicle = Some(vehicle);
        })
    };
    assert_opens(&fleet(false, false, [true, true]));
    assert_opens(&fleet(true, true, [false, false]));
    let revoked = AlertDescription::CertificateRevoked;
    let words = ["the certificate of router.fleet, or its issuer's, is revoked"];
    assert_refused(&fleet(true, false, [true, true]), "client", revoked, &words);
    assert_refused(&fleet(false, true, [true, true]), "client", revoked, &words);
    let words = ["no revocation list here", NAME];
    assert_refused(
        &fleet(false, false, [true, false]),
        "client",
        AlertDescription::UnknownCA,
        &words,
    );
}

fn serial_of(authority: &Authority) -> rcgen::SerialNumber {
    use x509_parser::prelude::{FromDer, Pem, X509Certificate};
    let pem = Pem::iter_from_buffer(authority.pem.as_bytes()).next().unwrap().unwrap();
    let (_, certificate) = X509Certificate::from_der(&pem.contents).unwrap();
    rcgen::SerialNumber::from_slice(certificate.raw_serial())
}

#[test]
fn a_revoked_client_is_refused() {
    let fleet = Fleet::with(|fleet| {
        let list = fleet.ca.revocation_list(&[&fleet.vehicle.as_ref().unwrap().serial]);
        let clients = fleet.clients.as_mut().unwrap();
        clients.add_revocation_lists(list.as_bytes()).unwrap();
    });
    assert_refused(
        &fleet,
        "server",
        AlertDescription::CertificateRevoked,
        &["vehicle-7", "revoked"],
    );
}

#[test]
fn the_name_must_be_the_one_that_was_asked_for_unless_that_is_forgiven() {
    let other = "other.fleet".to_owned();
    let fleet = Fleet::with(|fleet| fleet.host.clone_from(&other));
    let words = ["certificate of router.fleet is for", "router.fleet", "not for other.fleet"];
    assert_refused(&fleet, "client", AlertDescription::BadCertificate, &words);
    assert_opens(&Fleet { name: ServerName::Any, ..fleet });
    let fixed = |name: &str| ServerName::Fixed(name.to_owned());
    let host = || "192.0.2.7".to_owned();
    let fleet = Fleet::with(|fleet| (fleet.name, fleet.host) = (fixed(NAME), host()));
    assert_opens(&fleet);
    let fleet = Fleet::with(|fleet| fleet.name = fixed("other.fleet"));
    assert_refused(&fleet, "client", AlertDescription::BadCertificate, &words);
}

#[test]
fn only_the_name_is_forgiven() {
    let forgiving = |change: &dyn Fn(&mut Fleet)| {
        Fleet::with(|fleet| {
            (fleet.name, fleet.host) = (ServerName::Any, "not a name".to_owned());
            change(fleet);
        })
    };
    assert_opens(&forgiving(&|_| {}));
    let other = Authority::new("other CA");
    let fleet = forgiving(&|fleet| fleet.router = other.identity(NAME));
    assert_refused(&fleet, "client", AlertDescription::UnknownCA, &[NAME]);
    let fleet = forgiving(&|fleet| {
        fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], with_dates([2020, 2021]));
    });
    assert_refused(&fleet, "client", AlertDescription::CertificateExpired, &[NAME]);
    let fleet = forgiving(&|fleet| {
        let list = fleet.ca.revocation_list(&[&fleet.router.serial]);
        fleet.servers.add_revocation_lists(list.as_bytes()).unwrap();
    });
    assert_refused(&fleet, "client", AlertDescription::CertificateRevoked, &[NAME]);
    let fleet = forgiving(&|fleet| {
        fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
    });
    assert_refused(&fleet, "client", AlertDescription::UnsupportedCertificate, &[NAME]);
}

#[test]
fn addresses_are_names_too() {
    for (host, san) in [
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[::1]", "::1"),
        ("[fe80::1%eth0]", "fe80::1"),
    ] {
        let fleet = Fleet::with(|fleet| {
            fleet.router = fleet.ca.identity_with(Some(NAME), &[san], |_| {});
            fleet.host = host.to_owned();
        });
        assert_opens(&fleet);
        let fleet = Fleet { host: "192.0.2.8".to_owned(), ..fleet };
        assert_refused(&fleet, "client", AlertDescription::BadCertificate, &["192.0.2.8", san]);
    }
    let fleet = Fleet::with(|fleet| fleet.host = "not a\nname".to_owned());
    let (_, error) = fleet.handshake().err().unwrap();
    assert_eq!(error.text, "`not a\\nname` cannot be the name of a certificate");
}

#[test]
fn certificates_are_for_what_their_usage_says() {
    let only = |usage: ExtendedKeyUsagePurpose| {
        move |params: &mut CertificateParams| params.extended_key_usages = vec![usage]
    };
    let fleet = Fleet::with(|fleet| {
        let usage = only(ExtendedKeyUsagePurpose::ClientAuth);
        fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], usage);
    });
    let words = [NAME, "not for this purpose"];
    assert_refused(&fleet, "client", AlertDescription::UnsupportedCertificate, &words);
    let fleet = Fleet::with(|fleet| {
        let usage = only(ExtendedKeyUsagePurpose::ServerAuth);
        fleet.vehicle = Some(fleet.ca.identity_with(Some("vehicle-7"), &[], usage));
    });
    let words = ["vehicle-7", "not for this purpose"];
    assert_refused(&fleet, "server", AlertDescription::UnsupportedCertificate, &words);
}

#[test]
fn a_client_without_certificate_is_refused_where_one_is_wanted() {
    let fleet = Fleet::with(|fleet| fleet.vehicle = None);
    let words = ["the peer shows no certificate"];
    assert_refused(&fleet, "server", AlertDescription::CertificateRequired, &words);
}

#[test]
fn a_renewed_certificate_serves_the_next_client() {
    let fleet = Fleet::with(|fleet| {
        fleet.router = fleet.ca.identity_with(Some(NAME), &[NAME], with_dates([2020, 2021]));
    });
    let (client, server) = fleet.configs();
    let (client, server) =
        (Tls::client(client, ServerName::Asked, None), Tls::server(server, None));
    assert!(handshake(&client, &server, NAME).is_err());
    let renewed = fleet.ca.identity(NAME);
    server.renew(server_config(renewed.own(), fleet.clients.as_ref()).unwrap(), None);
    handshake(&client, &server, NAME).unwrap();
}

fn key(byte: u8) -> String {
    // 32 bytes in base64, the last of them `byte`'s.
    format!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{}=", char::from(byte))
}

fn psks(keys: &[String]) -> Psks {
    Psks::parse(&keys.join("\n")).unwrap()
}

fn by_psk(client: &[String], server: &[String]) -> Result<[Side; 2], Refusal> {
    let client = Tls::client(psks(client).client_config().unwrap(), ServerName::Any, None);
    let server = Tls::server(psks(server).server_config().unwrap(), None);
    handshake(&client, &server, "not a name")
}

#[test]
fn who_has_the_key_is_let_in() {
    for side in by_psk(&[key(b'A')], &[key(b'A')]).unwrap() {
        assert_eq!(side.peer(), Some(Peer::Psk));
    }
    let (who, error) = by_psk(&[key(b'A')], &[key(b'E')]).err().unwrap();
    assert_eq!((who, error.alert), ("client", Some(AlertDescription::UnknownPSKIdentity.into())));
    assert_eq!(error.text, "the peer holds none of the pre-shared keys of this side");
}

/// At each step of a rotation some have taken it and some have not.
#[test]
fn a_key_is_changed_without_an_outage() {
    let (old, new) = (key(b'A'), key(b'E'));
    let steps = [
        vec![old.clone()],
        vec![old.clone(), new.clone()],
        vec![new.clone(), old.clone()],
        vec![new.clone()],
    ];
    for pair in steps.windows(2) {
        for (client, server) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            by_psk(&pair[client], &pair[server]).unwrap();
        }
    }
    assert!(by_psk(&steps[0], &steps[3]).is_err());
}

#[test]
fn certificates_and_pre_shared_keys_do_not_meet() {
    let (client, server) = Fleet::new().configs();
    let psks = psks(&[key(b'A')]);
    let by_certificate = (Tls::client(client, ServerName::Asked, None), Tls::server(server, None));
    let by_psk = (
        Tls::client(psks.client_config().unwrap(), ServerName::Any, None),
        Tls::server(psks.server_config().unwrap(), None),
    );
    for (client, server) in [(&by_certificate.0, &by_psk.1), (&by_psk.0, &by_certificate.1)] {
        let (_, error) = handshake(client, server, NAME).err().unwrap();
        assert_eq!(error.text, "one side has certificates, the other one a pre-shared key");
    }
}

#[test]
fn keys_that_cannot_be_used_are_refused_without_being_told() {
    let error = |text: &str| Psks::parse(text).err().unwrap();
    assert_eq!(error(""), ConfigError::NoPsk);
    assert_eq!(error("\n# nothing but a comment\n"), ConfigError::NoPsk);
    assert_eq!(error("# old\nc2VjcmV0\n"), ConfigError::ShortPsk { line: 2 });
    let text = error("\n\nhunter2-is-no-base64!\n");
    assert_eq!(text, ConfigError::BadPsk { line: 3 });
    assert!(!text.to_string().contains("hunter2"));
    assert!(!format!("{:?}", psks(&[key(b'A')])).contains("AAAA"));
}

#[test]
fn what_is_missing_in_a_file_is_named() {
    let ca = Authority::new("fleet CA");
    let (one, other) = (ca.identity("one"), ca.identity("other"));
    let error = |chain: &str, key: &str| {
        arq_tls::certified_key(chain.as_bytes(), key.as_bytes()).err().unwrap().to_string()
    };
    assert_eq!(error("", &one.key), "there is no certificate in PEM format");
    assert_eq!(error(&one.key, &one.key), "there is no certificate in PEM format");
    assert_eq!(error(&one.chain, &one.chain), "there is no private key in PEM format");
    let text = error(&one.chain, &other.key);
    assert_eq!(text, "the private key is not that of the certificate of one");
    let encrypted = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert!(error(&one.chain, &encrypted).contains("encrypted"));
    let text = Trust::default().add_authorities(one.key.as_bytes()).unwrap_err().to_string();
    assert_eq!(text, "there is no certificate in PEM format");
    let text = Trust::default().add_revocation_lists(one.chain.as_bytes()).unwrap_err().to_string();
    assert_eq!(text, "there is no certificate revocation list in PEM format");
}
