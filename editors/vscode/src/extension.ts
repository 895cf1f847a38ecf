/** The extension: starts the language server of gradlint and lets it speak with VS Code. */

import * as vscode from "vscode";
import { LanguageClient, RevealOutputChannelOn } from "vscode-languageclient/node";

import { chosenPython, onPythonChosen } from "./python";
import { findServer, initializationOptions, NoServer, type Settings } from "./server";

const SELECTOR = [
  { scheme: "file", language: "python" },
  { scheme: "vscode-notebook-cell", language: "python" },
];

let running: LanguageClient | undefined;
let turn: Promise<void> = Promise.resolve();

export function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("gradlint", { log: true });
  const watched = vscode.workspace.createFileSystemWatcher("**/{*.py,pyproject.toml,gradlint.toml}");
  const restart = (): Promise<void> => {
    turn = turn.then(() => stopped()).then(() => started(context, output, watched));
    return turn;
  };
  context.subscriptions.push(
    output,
    watched,
    vscode.commands.registerCommand("gradlint.restart", restart),
    vscode.commands.registerCommand("gradlint.showOutput", () => output.show()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      // the client itself hears of gradlint.trace
      if (["enable", "path", "interpreter", "args", "run"].some((key) => event.affectsConfiguration(`gradlint.${key}`))) {
        void restart();
      }
    }),
    onPythonChosen(() => void restart()),
  );
  return restart();
}

export function deactivate(): Promise<void> {
  turn = turn.then(() => stopped());
  return turn;
}

async function started(
  context: vscode.ExtensionContext,
  output: vscode.LogOutputChannel,
  watched: vscode.FileSystemWatcher,
): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const configuration = vscode.workspace.getConfiguration("gradlint", folder ?? null);
  if (!configuration.get("enable", true)) {
    return;
  }
  const settings: Settings = {
    path: configuration.get("path", ""),
    interpreter: configuration.get("interpreter", ""),
    args: configuration.get<string[]>("args", []),
    run: configuration.get("run", "onType"),
  };
  try {
    const server = await findServer(settings, {
      workspace: folder?.scheme === "file" ? folder.fsPath : undefined,
      chosenPython: await chosenPython(folder),
      extension: context.extensionPath,
      environment: process.env,
    });
    output.info(`from ${server.origin}: ${[server.command, ...server.args].join(" ")}`);
    running = new LanguageClient(
      "gradlint",
      "gradlint",
      {
        command: server.command,
        args: [...server.args], // no transport is named: for one that is, the client adds options of its own
        options: { env: server.environment },
      },
      {
        documentSelector: SELECTOR,
        outputChannel: output,
        revealOutputChannelOn: RevealOutputChannelOn.Never,
        initializationOptions: initializationOptions(settings),
        synchronize: { fileEvents: watched },
      },
    );
    await running.start();
  } catch (error) {
    output.error(String(error));
    const told = error instanceof NoServer ? error.message : `the server did not start: ${String(error)}`;
    void vscode.window.showErrorMessage(`gradlint: ${told}`, "Show the Output").then((chosen) => chosen && output.show());
  }
}

async function stopped(): Promise<void> {
  const client = running;
  running = undefined;
  await client?.dispose().catch(() => undefined); // it may never have run
}
