// Verifies the documents of docket-receipt/1: a run directory, a receipt, a ledger, or the proof of one event.
//
// Written from spec/docket-receipt-1.md; rule numbers (C-2, L-12, ...) are its, and every module says which section it
// follows. No dependencies; Node 20 and later. node verify.mjs [--json] [--run-key HEX] [--root HEX] [--operator HEX]
// PATH, or --batch with paths on stdin. For browsers: verifyFiles(files, pins) of given.mjs.

import { closeSync, constants, lstatSync, openSync, readSync, statSync } from "node:fs";
import { createInterface } from "node:readline";

import { answer } from "./given.mjs";
import { CHUNK } from "./limits.mjs";
import { exitOf, unreadable } from "./procedure.mjs";
import { isHex64 } from "./shapes.mjs";

class NoFile extends Error {}

/** The regular file at `path`, through links; undefined where there is nothing. Throws NoFile for anything else. */
function openSource(path) {
  let fd = -1;
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
    if (statSync(path).isFile()) fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw new NoFile(`${path}: ${error.message}`);
  }
  if (fd < 0) throw new NoFile(`${path} is no regular file`);
  return {
    read(offset, length) {
      const parts = [];
      let got = 0;
      while (got < length) {
        const piece = Buffer.allocUnsafe(Math.min(length - got, CHUNK));
        const n = readSync(fd, piece, 0, piece.length, offset + got);
        if (n === 0) break;
        parts.push(piece.subarray(0, n));
        got += n;
      }
      return parts.length === 1 ? parts[0] : Buffer.concat(parts);
    },
    close: () => closeSync(fd),
  };
}

/** Verify a path: a run directory, a receipt, a ledger or a proof. */
async function verifyPath(path, pins = {}) {
  let isDirectory = false;
  try {
    isDirectory = statSync(path).isDirectory();
  } catch {
    return unreadable("no such file or directory");
  }
  const names = isDirectory
    ? { receipt: `${path}/receipt.json`, ledger: `${path}/ledger.jsonl`, checkpoints: `${path}/checkpoints` }
    : { only: path };
  const files = {};
  try {
    for (const [key, name] of Object.entries(names)) {
      const source = openSource(name);
      if (source !== undefined) files[key] = source;
    }
    return await answer(files, isDirectory, pins);
  } catch (error) {
    if (error instanceof NoFile) return unreadable(error.message);
    throw error;
  } finally {
    for (const source of Object.values(files)) source.close();
  }
}

const USAGE = "usage: node verify.mjs [--json] [--run-key HEX] [--root HEX] [--operator HEX] PATH\n       node verify.mjs --batch < PATHS\n";

function options(args) {
  const found = { json: false, batch: false, pins: {}, paths: [] };
  const pins = { "--run-key": "run_key", "--root": "root", "--operator": "operator" };
  for (let at = args[0] === "verify" ? 1 : 0; at < args.length; at++) {
    const arg = args[at];
    if (arg === "--json") found.json = true;
    else if (arg === "--batch") found.batch = true;
    else if (Object.hasOwn(pins, arg)) {
      at += 1;
      if (!isHex64(args[at])) return null;
      found.pins[pins[arg]] = args[at];
    } else if (arg.startsWith("--")) return null;
    else found.paths.push(arg);
  }
  return found.paths.length === (found.batch ? 0 : 1) ? found : null;
}

function show({ verdict, checks, remarks }) {
  const failed = checks.find((check) => check.status === "fail");
  const lines = [verdict, ...(failed ? [`  ${failed.id}: ${failed.detail}`] : []), ...remarks.map((remark) => `  ${remark}`)];
  return `${lines.join("\n")}\n`;
}

async function main(args) {
  const given = options(args);
  if (given === null) {
    process.stderr.write(USAGE);
    return 2;
  }
  if (given.batch) {
    for await (const path of createInterface({ input: process.stdin })) {
      if (path !== "") process.stdout.write(`${JSON.stringify({ path, ...(await verifyPath(path, given.pins)) })}\n`);
    }
    return 0;
  }
  const found = await verifyPath(given.paths[0], given.pins);
  process.stdout.write(given.json ? `${JSON.stringify(found)}\n` : show(found));
  return exitOf(found.verdict);
}

process.exitCode = await main(process.argv.slice(2));
