/** Which gradlint to run, and how.  Nothing here needs VS Code. */

import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

/** What the settings of the extension say. */
export interface Settings {
  readonly path: string;
  readonly interpreter: string;
  readonly args: readonly string[];
  readonly run: "onType" | "onSave";
}

/** Where to look besides what the settings say. */
export interface Surroundings {
  /** The folder of the workspace, if one is open. */
  readonly workspace: string | undefined;
  /** The Python that was chosen for the workspace, if any. */
  readonly chosenPython: string | undefined;
  /** Where the extension lies. */
  readonly extension: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** A command that serves the protocol on its standard input and output. */
export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  /** Where it was found, for people. */
  readonly origin: string;
}

/** There is no server to start; the message says what to do. */
export class NoServer extends Error {}

const INSTALL = "python -m pip install 'gradlint[server]'";

/** Asks a Python whether it has gradlint (3) and what its server needs (1); Pythons before 3.11 know no -P. */
const PROBE = "from importlib.util import find_spec as f; raise SystemExit(40 + bool(f('gradlint')) + 2 * bool(f('pygls')))";

/**
 * The server to start: the one that the settings name, else that of the interpreter, else one on the PATH, else the one
 * that came with the extension.
 *
 * @throws NoServer where there is none
 */
export async function findServer(settings: Settings, around: Surroundings): Promise<ServerCommand> {
  const made = (command: string, before: readonly string[], origin: string, environment = {}): ServerCommand => ({
    command,
    args: [...before, "server", ...settings.args],
    environment: { ...around.environment, ...environment },
    origin,
  });
  if (settings.path) {
    const named = expanded(settings.path, around);
    if (!isExecutable(named)) {
      throw new NoServer(`gradlint.path: ${named} is not there, or cannot be run`);
    }
    return made(named, [], "the setting gradlint.path");
  }
  let lacks = "";
  const python = interpreter(settings, around);
  if (python) {
    const has = await probe(python, around.environment);
    if (has.gradlint && has.pygls) {
      return made(python, ["-P", "-m", "gradlint"], python);
    }
    lacks = has.gradlint ? `gradlint is installed for ${python} without its server; ` : "";
  }
  const found = onPath("gradlint", around.environment);
  if (found && !lacks) {
    return made(found, [], "the PATH");
  }
  const bundled = path.join(around.extension, "bundled");
  const runner = python ?? onPath("python3", around.environment) ?? onPath("python", around.environment);
  if (runner && existsSync(path.join(bundled, "gradlint"))) {
    return made(runner, ["-P", "-m", "gradlint"], "the extension", { PYTHONPATH: bundled });
  }
  throw new NoServer(`${lacks || "gradlint was not found; "}install it: ${INSTALL}, or set gradlint.path`);
}

/** What the server is told when it begins. */
export function initializationOptions(settings: Settings): { run: string } {
  return { run: settings.run };
}

function interpreter(settings: Settings, around: Surroundings): string | undefined {
  if (settings.interpreter) {
    const named = expanded(settings.interpreter, around);
    if (!isExecutable(named)) {
      throw new NoServer(`gradlint.interpreter: ${named} is not there, or cannot be run`);
    }
    return named;
  }
  const own = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
  const beside = around.workspace ? [path.join(around.workspace, ".venv", ...own)] : [];
  return [around.chosenPython, ...beside].find((each) => each !== undefined && isExecutable(each));
}

function probe(python: string, environment: NodeJS.ProcessEnv): Promise<{ gradlint: boolean; pygls: boolean }> {
  return new Promise((resolve) => {
    const child = execFile(python, ["-P", "-c", PROBE], { env: environment, timeout: 20_000 }, () => {
      const has = (child.exitCode ?? 0) - 40;
      resolve(has < 0 ? { gradlint: false, pygls: false } : { gradlint: (has & 1) > 0, pygls: (has & 2) > 0 });
    });
  });
}

/** A path with the home folder and the folder of the workspace put in; those without a folder stand on the PATH. */
function expanded(written: string, around: Surroundings): string {
  const full = written
    .replace(/^~(?=$|[\\/])/, homedir())
    .replaceAll("${workspaceFolder}", around.workspace ?? "${workspaceFolder}");
  if (path.basename(full) === full) {
    return onPath(full, around.environment) ?? full;
  }
  return path.resolve(around.workspace ?? ".", full);
}

function onPath(name: string, environment: NodeJS.ProcessEnv): string | undefined {
  const written = Object.entries(environment).find(([key]) => key.toUpperCase() === "PATH")?.[1] ?? "";
  const endings = process.platform === "win32" ? ["", ".exe", ".cmd", ".bat"] : [""];
  return written
    .split(path.delimiter)
    .filter((folder) => folder)
    .flatMap((folder) => endings.map((ending) => path.join(folder, name + ending)))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
