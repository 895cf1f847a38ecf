/** What the extension starts, and what it says: found among what is installed, and spoken to over the protocol. */

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";

import {
  createProtocolConnection,
  DidChangeNotebookDocumentNotification,
  DidChangeTextDocumentNotification,
  DidOpenNotebookDocumentNotification,
  DidOpenTextDocumentNotification,
  DidSaveTextDocumentNotification,
  InitializedNotification,
  InitializeRequest,
  NotebookCellKind,
  PublishDiagnosticsNotification,
  StreamMessageReader,
  StreamMessageWriter,
  type InitializeResult,
  type ProtocolConnection,
  type PublishDiagnosticsParams,
} from "vscode-languageserver-protocol/node";

import { findServer, initializationOptions, NoServer, type ServerCommand, type Settings } from "../src/server";

/** A Python with gradlint and pygls; the tests are run with it at hand. */
const PYTHON = execFileSync(process.env["PYTHON"] ?? "python3", ["-c", "import sys; print(sys.executable)"])
  .toString()
  .trim();
const DEFAULTS: Settings = { path: "", interpreter: "", args: [], run: "onType" };
const BROKEN = `import torch
from torch import nn

net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 6):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
`;

let folder = "";
before(() => {
  folder = mkdtempSync(path.join(tmpdir(), "gradlint vscode "));
});
after(() => {
  rmSync(folder, { recursive: true, force: true });
});

function around(changes: Partial<Parameters<typeof findServer>[1]> = {}): Parameters<typeof findServer>[1] {
  return { workspace: folder, chosenPython: undefined, extension: folder, environment: { PATH: "" }, ...changes };
}

/** A program of a name in a new folder, which is there to be found. */
function program(name: string, text = "#!/bin/sh\n"): string {
  const file = path.join(mkdtempSync(path.join(folder, "programs ")), name);
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
}

describe("finding the server", () => {
  it("takes the one that the settings name, before all others", async () => {
    const named = program("gradlint");
    const found = await findServer({ ...DEFAULTS, path: named, args: ["--select", "GL5"] }, around({ chosenPython: PYTHON }));
    assert.deepEqual([found.command, ...found.args], [named, "server", "--select", "GL5"]);
  });

  it("understands the workspace's folder in a setting", async () => {
    const named = program("gradlint");
    const written = "${workspaceFolder}/" + path.relative(folder, named);
    assert.equal((await findServer({ ...DEFAULTS, path: written }, around())).command, named);
    assert.equal((await findServer({ ...DEFAULTS, path: path.relative(folder, named) }, around())).command, named);
  });

  it("says which setting names nothing", async () => {
    await assert.rejects(findServer({ ...DEFAULTS, path: "nowhere/gradlint" }, around()), (error: unknown) => {
      assert.ok(error instanceof NoServer);
      assert.match(error.message, /gradlint\.path: .*nowhere/);
      return true;
    });
    await assert.rejects(findServer({ ...DEFAULTS, interpreter: "nowhere/python" }, around()), /gradlint\.interpreter/);
  });

  it("takes the interpreter's before one on the PATH", async () => {
    const other = path.dirname(program("gradlint"));
    const found = await findServer(DEFAULTS, around({ chosenPython: PYTHON, environment: { PATH: other } }));
    assert.deepEqual([found.command, ...found.args], [PYTHON, "-P", "-m", "gradlint", "server"]);
  });

  it("takes the workspace's .venv for the interpreter where none was chosen", async () => {
    const workspace = mkdtempSync(path.join(folder, "workspace "));
    mkdirSync(path.join(workspace, ".venv", "bin"), { recursive: true });
    const own = path.join(workspace, ".venv", "bin", "python");
    writeFileSync(own, `#!/bin/sh\nexec '${PYTHON}' "$@"\n`);
    chmodSync(own, 0o755);
    assert.equal((await findServer(DEFAULTS, around({ workspace }))).command, own);
  });

  it("takes one on the PATH where the interpreter has none", async () => {
    const bare = program("python", "#!/bin/sh\nexit 40\n");
    const onPath = program("gradlint");
    const found = await findServer(DEFAULTS, around({ chosenPython: bare, environment: { PATH: path.dirname(onPath) } }));
    assert.deepEqual([found.command, ...found.args], [onPath, "server"]);
  });

  it("takes the one that came with it where there is no other", async () => {
    const extension = mkdtempSync(path.join(folder, "extension "));
    mkdirSync(path.join(extension, "bundled", "gradlint"), { recursive: true });
    const bare = program("python3", "#!/bin/sh\nexit 40\n");
    const found = await findServer(DEFAULTS, around({ extension, environment: { PATH: path.dirname(bare) } }));
    assert.deepEqual([found.command, ...found.args], [bare, "-P", "-m", "gradlint", "server"]);
    assert.equal(found.environment["PYTHONPATH"], path.join(extension, "bundled"));
  });

  it("says what to install, and for which interpreter", async () => {
    await assert.rejects(findServer(DEFAULTS, around()), /gradlint was not found; install it: .*gradlint\[server\]/);
    const withoutPygls = program("python", "#!/bin/sh\nexit 41\n");
    await assert.rejects(
      findServer(DEFAULTS, around({ chosenPython: withoutPygls })),
      (error: Error) => error.message.includes(withoutPygls) && error.message.includes("without its server"),
    );
  });
});

/** An editor that has started what the extension would start. */
class Editor {
  private readonly published: PublishDiagnosticsParams[] = [];
  private wake: () => void = () => undefined;

  private constructor(
    private readonly connection: ProtocolConnection,
    private readonly child: ReturnType<typeof spawn>,
    readonly abilities: InitializeResult,
  ) {
    connection.onNotification(PublishDiagnosticsNotification.type, (params) => {
      this.published.push(params);
      this.wake();
    });
  }

  static async start(server: ServerCommand, settings: Settings): Promise<Editor> {
    const child = spawn(server.command, server.args, { cwd: folder, env: server.environment, stdio: ["pipe", "pipe", "inherit"] });
    const connection = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
    connection.listen();
    const abilities = await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: null,
      capabilities: { notebookDocument: { synchronization: {} } },
      workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "project" }],
      initializationOptions: initializationOptions(settings),
    });
    const editor = new Editor(connection, child, abilities);
    await connection.sendNotification(InitializedNotification.type, {});
    return editor;
  }

  send<P>(type: { readonly method: string }, params: P): Promise<void> {
    return this.connection.sendNotification(type.method, params);
  }

  /** The codes and first lines of what is told next of a version of a document. */
  async told(uri: string, version: number, patience = 60_000): Promise<[unknown, number][] | undefined> {
    const end = Date.now() + patience;
    for (;;) {
      const index = this.published.findIndex((each) => each.uri === uri && each.version === version);
      const [found] = index < 0 ? [] : this.published.splice(index, 1);
      if (found) {
        return found.diagnostics.map((each) => [each.code, each.range.start.line]);
      }
      if (Date.now() >= end) {
        return undefined;
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, end - Date.now());
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async stop(): Promise<number | null> {
    const ended = new Promise<number | null>((resolve) => this.child.once("exit", resolve));
    await this.connection.sendRequest("shutdown");
    await this.connection.sendNotification("exit");
    const code = await ended;
    this.connection.dispose();
    return code;
  }
}

async function started(changes: Partial<Settings> = {}): Promise<Editor> {
  const settings = { ...DEFAULTS, ...changes };
  return Editor.start(await findServer(settings, around({ chosenPython: PYTHON, environment: process.env })), settings);
}

describe("the server, as the extension starts it", () => {
  it("tells of a file as it is typed", async () => {
    const editor = await started();
    const uri = pathToFileURL(path.join(folder, "train.py")).href;
    await editor.send(DidOpenTextDocumentNotification.type, {
      textDocument: { uri, languageId: "python", version: 1, text: BROKEN },
    });
    assert.deepEqual(await editor.told(uri, 1), [["GL201", 7]]);
    const fixed = BROKEN.replace("    loss.b", "    optimizer.zero_grad()\n    loss.b");
    await editor.send(DidChangeTextDocumentNotification.type, {
      textDocument: { uri, version: 2 },
      contentChanges: [{ text: fixed }],
    });
    assert.deepEqual(await editor.told(uri, 2), []);
    assert.equal(await editor.stop(), 0);
  });

  it("waits for saving where the settings say so, and takes their options", async () => {
    const editor = await started({ run: "onSave", args: ["--select", "GL501"] });
    const uri = pathToFileURL(path.join(folder, "look.py")).href;
    await editor.send(DidOpenTextDocumentNotification.type, {
      textDocument: { uri, languageId: "python", version: 1, text: BROKEN },
    });
    assert.deepEqual(await editor.told(uri, 1), [], "GL201 is not among the rules asked for");
    await editor.send(DidChangeTextDocumentNotification.type, {
      textDocument: { uri, version: 2 },
      contentChanges: [{ text: `${BROKEN}net.weight.numpy()\n` }],
    });
    assert.equal(await editor.told(uri, 2, 2_000), undefined);
    await editor.send(DidSaveTextDocumentNotification.type, { textDocument: { uri } });
    assert.deepEqual(await editor.told(uri, 2), [["GL501", 9]]);
    assert.equal(await editor.stop(), 0);
  });

  it("tells of the cells of a notebook", async () => {
    const editor = await started();
    const { notebookDocumentSync } = editor.abilities.capabilities;
    assert.deepEqual(notebookDocumentSync, {
      notebookSelector: [{ notebook: "*", cells: [{ language: "python" }] }],
      save: true,
    });
    const notebook = pathToFileURL(path.join(folder, "train.ipynb")).href;
    const cells = [BROKEN.slice(0, BROKEN.indexOf("for x")), BROKEN.slice(BROKEN.indexOf("for x"))].map((text, index) => ({
      uri: `${notebook.replace("file:", "vscode-notebook-cell:")}#W${index}`,
      languageId: "python",
      version: 1,
      text,
    }));
    const loop = cells[1];
    assert.ok(loop);
    await editor.send(DidOpenNotebookDocumentNotification.type, {
      notebookDocument: {
        uri: notebook,
        notebookType: "jupyter-notebook",
        version: 1,
        cells: cells.map(({ uri }) => ({ kind: NotebookCellKind.Code, document: uri })),
      },
      cellTextDocuments: cells,
    });
    assert.deepEqual(await editor.told(loop.uri, 1), [["GL201", 2]]);
    await editor.send(DidChangeNotebookDocumentNotification.type, {
      notebookDocument: { uri: notebook, version: 2 },
      change: {
        cells: {
          textContent: [
            {
              document: { uri: loop.uri, version: 2 },
              changes: [
                {
                  range: { start: { line: 2, character: 0 }, end: { line: 2, character: 0 } },
                  text: "    optimizer.zero_grad()\n",
                },
              ],
            },
          ],
        },
      },
    });
    assert.deepEqual(await editor.told(loop.uri, 2), []);
    assert.equal(await editor.stop(), 0);
  });
});
