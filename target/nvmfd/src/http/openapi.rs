//! The OpenAPI document of the control socket, from the table of routes and the types of answers.

use super::routes::{self, Gives, ROUTES, Route, Takes};
use super::views::Failure;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The document as it is served. It is written once: that takes as long as many other answers.
pub(super) fn written() -> &'static str {
    static WRITTEN: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &WRITTEN
}

/// The document (OpenAPI 3.1).
pub(super) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let failure = generator.subschema_for::<Failure>();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator, &failure);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[routes::method_name(&route.method).to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nvmfd control socket",
            "version": "1",
            "description": "Spoken over a Unix socket: curl --unix-socket /run/nvmfd/control.sock \
                http://nvmfd/v1/status. One request a connection.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://nvmfd" }],
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

fn operation(
    route: &Route,
    generator: &mut schemars::SchemaGenerator,
    failure: &schemars::Schema,
) -> Value {
    let content = match route.gives {
        Gives::Json(schema) => json!({ "application/json": { "schema": schema(generator) } }),
        Gives::Config => json!({ "application/toml": { "schema": { "type": "string" } } }),
        Gives::Events => json!({ "application/x-ndjson": { "schema": { "type": "string" } } }),
    };
    let mut operation = json!({
        "operationId": format!("{:?}", route.action),
        "summary": route.summary,
        "responses": {
            "200": { "description": "Done", "content": content },
            "default": {
                "description": "Nothing was changed; the error says why",
                "content": { "application/json": { "schema": failure } },
            },
        },
    });
    let mut parameters: Vec<Value> = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            let kind = if matches!(name, "nsid" | "cntlid") { "integer" } else { "string" };
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
        })
        .collect();
    if route.is_edit() {
        parameters.push(json!({
            "name": "save",
            "in": "query",
            "description": "Write the change into the configuration file too",
            "schema": { "type": "boolean", "default": false },
        }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    match route.takes {
        Takes::Nothing => {}
        Takes::Table(table) => {
            operation["requestBody"] = json!({ "required": true, "content": { "application/json": {
                "schema": {
                    "type": "object",
                    "description": format!("Keys of [{table}] as in the configuration file"),
                },
            } } });
        }
        Takes::Config => {
            let schema = json!({ "type": "string" });
            operation["requestBody"] = json!({ "required": true, "content": { "application/toml": { "schema": schema } } });
        }
    }
    operation
}
