// Validates pipeline files with the language service that the editor extension uses.
//
//   node validate_pipeline.mjs SCHEMA.json CACHE_FOLDER FILE...
//
// Prints a line for each fault; ends with 0 (no fault), 1 (faults) or 2 (could not validate). The language service is
// installed into CACHE_FOLDER on first use. It is given the schema as an object and the schema's address as a
// function: with anything else it finds no fault in any file.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const NAME = "azure-pipelines-language-service";
const VERSION = "0.9.2";

const [schemaFile, cacheFolder, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: node validate_pipeline.mjs SCHEMA.json CACHE_FOLDER FILE...");
  process.exit(2);
}

const installed = resolve(cacheFolder, `${NAME}-${VERSION}`);
if (!existsSync(installed)) {
  mkdirSync(dirname(installed), { recursive: true });
  const fresh = mkdtempSync(`${installed}-`);
  const options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  const npm = spawnSync("npm", ["install", ...options, "--prefix", fresh, `${NAME}@${VERSION}`], { encoding: "utf8" });
  if (npm.status !== 0) {
    rmSync(fresh, { recursive: true, force: true });
    console.error(`npm could not install ${NAME}@${VERSION}: ${npm.error ?? npm.stderr}`);
    process.exit(2);
  }
  try {
    renameSync(fresh, installed); // whole or not at all, also when two processes install at once
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    if (!existsSync(installed)) throw error;
  }
}

const require = createRequire(join(installed, "package.json"));
const { getLanguageService } = require(NAME);
const { TextDocument } = require("vscode-languageserver-types");

const schema = JSON.parse(readFileSync(schemaFile, "utf8"));
const print = console.log;
console.log = () => {}; // the package talks
const service = getLanguageService(async () => schema, [], async () => "file:///schema.json");
service.configure({ validate: true, schemas: [{ uri: "file:///schema.json", fileMatch: ["*"], schema }] });

let faults = 0;
for (const file of files) {
  const { parse } = require(`${NAME}/lib/parser/yamlParser`);
  const document = TextDocument.create(`file:///${file}`, "azure-pipelines", 1, readFileSync(file, "utf8"));
  const parsed = parse(document.getText());
  for (const fault of await service.doValidation(document, parsed)) {
    const { line, character } = fault.range.start;
    print(`${file}:${line + 1}:${character + 1}: ${fault.message}`);
    faults += 1;
  }
}
process.exit(faults === 0 ? 0 : 1);
