use super::encode;
use super::openapi::document;
use super::routes::{self, Lost, ROUTES, decode};
use hyper::Method;

#[test]
fn names_with_any_character_survive_the_path() {
    for name in ["nqn.2014-08.org.example:a/b", "[fe80::1%eth0]:4420", "ü %2F", "a?b#c"] {
        let path = format!("/v1/subsystems/{}", encode(name));
        let (_, parameters) = routes::find(&Method::GET, &path).unwrap();
        assert_eq!(parameters, [name]);
    }
    for broken in ["%", "%4", "%zz", "%ff"] {
        assert_eq!(decode(broken), None, "{broken}");
    }
}

#[test]
fn a_path_without_the_method_names_those_it_has() {
    let lost = routes::find(&Method::PUT, "/v1/subsystems/a").unwrap_err();
    assert_eq!(lost, Lost::Methods(vec!["GET", "PATCH", "DELETE"]));
    assert_eq!(routes::find(&Method::GET, "/v1/frob").unwrap_err(), Lost::NoSuchPath);
    assert_eq!(routes::find(&Method::GET, "/v1/status/").unwrap_err(), Lost::NoSuchPath);
}

#[test]
fn the_document_in_docs_is_the_one_that_is_served() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "docs/openapi.json is old: run this test with UPDATE_DOCS=1");
}

#[test]
fn every_route_is_in_the_document_and_every_reference_leads_somewhere() {
    let document = document();
    for route in ROUTES {
        let method = routes::method_name(&route.method).to_lowercase();
        assert!(document["paths"][route.path][&method].is_object(), "{method} {}", route.path);
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}
