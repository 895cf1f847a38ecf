/** The extension itself, with stand-ins for VS Code and for its client: what it starts, when, and what it says. */

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import Module from "node:module";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, beforeEach, describe, it } from "node:test";

interface Started {
  readonly server: { command: string; args: string[]; transport?: unknown; options: { env: NodeJS.ProcessEnv } };
  readonly client: { documentSelector: unknown[]; initializationOptions: unknown };
  running: boolean;
}

const folder = mkdtempSync(path.join(tmpdir(), "gradlint extension "));
const gradlint = path.join(folder, "gradlint");
writeFileSync(gradlint, "#!/bin/sh\n");
chmodSync(gradlint, 0o755);
after(() => rmSync(folder, { recursive: true, force: true }));

let settings: Record<string, unknown> = {};
let started: Started[] = [];
let errors: string[] = [];
let changed: (event: { affectsConfiguration(key: string): boolean }) => void = () => undefined;
const commands = new Map<string, () => unknown>();

const nothing = { dispose: () => undefined };
const vscode = {
  Disposable: class {
    constructor(readonly dispose: () => void) {}
  },
  window: {
    createOutputChannel: () => ({ ...nothing, info: () => undefined, error: () => undefined, show: () => undefined }),
    showErrorMessage: (message: string) => Promise.resolve(void errors.push(message)),
  },
  commands: {
    registerCommand: (name: string, run: () => unknown) => {
      commands.set(name, run);
      return nothing;
    },
  },
  extensions: { getExtension: () => undefined },
  workspace: {
    workspaceFolders: [{ uri: { scheme: "file", fsPath: folder } }],
    getConfiguration: () => ({ get: (key: string, otherwise: unknown) => settings[key] ?? otherwise }),
    onDidChangeConfiguration: (then: typeof changed) => {
      changed = then;
      return nothing;
    },
    createFileSystemWatcher: () => nothing,
  },
};
const client = {
  RevealOutputChannelOn: { Never: 4 },
  LanguageClient: class {
    private readonly one: Started;
    constructor(_id: string, _name: string, server: Started["server"], options: Started["client"]) {
      this.one = { server, client: options, running: false };
      started.push(this.one);
    }
    start(): Promise<void> {
      this.one.running = true;
      return Promise.resolve();
    }
    dispose(): Promise<void> {
      this.one.running = false;
      return Promise.resolve();
    }
  },
};

type Load = (request: string, ...rest: unknown[]) => unknown;
const loader = Module as unknown as { _load: Load };
const load = loader._load;
loader._load = function (this: unknown, request, ...rest) {
  const standIn = { vscode, "vscode-languageclient/node": client }[request];
  return standIn ?? load.call(this, request, ...rest);
};
// required, not imported, as the stand-ins have to be in place
const extension = require("../src/extension") as typeof import("../src/extension");
const context = { subscriptions: [], extensionPath: folder } as unknown as Parameters<typeof extension.activate>[0];

describe("the extension", () => {
  beforeEach(async () => {
    await extension.deactivate();
    [settings, started, errors] = [{ path: gradlint }, [], []];
  });

  it("starts the server for files and for cells", async () => {
    settings = { path: gradlint, args: ["--select", "GL2"], run: "onSave" };
    await extension.activate(context);
    const [one] = started;
    assert.ok(one?.running);
    assert.deepEqual([one.server.command, ...one.server.args], [gradlint, "server", "--select", "GL2"]);
    assert.ok(!("transport" in one.server), "for this the client adds options such as --stdio");
    assert.equal(one.server.options.env["PATH"], process.env["PATH"]);
    assert.deepEqual(one.client.initializationOptions, { run: "onSave" });
    assert.deepEqual(one.client.documentSelector, [
      { scheme: "file", language: "python" },
      { scheme: "vscode-notebook-cell", language: "python" },
    ]);
    await extension.deactivate();
    assert.ok(!one.running);
  });

  it("starts it anew when it is asked to, or a setting changes that it was started with", async () => {
    await extension.activate(context);
    await commands.get("gradlint.restart")?.();
    assert.deepEqual(started.map((one) => one.running), [false, true]);
    changed({ affectsConfiguration: (key) => key === "gradlint.trace.server" });
    changed({ affectsConfiguration: (key) => key === "gradlint.run" });
    await extension.deactivate();
    assert.deepEqual(started.map((one) => one.running), [false, false, false]);
  });

  it("starts nothing where it is switched off", async () => {
    settings = { enable: false };
    await extension.activate(context);
    assert.deepEqual([started, errors], [[], []]);
  });

  it("says what is wrong where there is no server", async () => {
    settings = { path: "nowhere/gradlint" };
    await extension.activate(context);
    assert.equal(started.length, 0);
    assert.match(errors[0] ?? "", /^gradlint: gradlint\.path: .*nowhere/);
  });
});
