/** Puts gradlint and what its server needs into the extension, for this platform and the Python on the PATH. */

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import * as path from "node:path";

const root = path.resolve(__dirname, "..", "..");
const target = path.join(root, "bundled");
const from = process.argv[2] ?? path.resolve(root, "..", "..");
const python = process.env["PYTHON"] ?? (process.platform === "win32" ? "python" : "python3");

rmSync(target, { recursive: true, force: true });
execFileSync(python, ["-m", "pip", "install", "--target", target, `${from}[server]`], { stdio: "inherit" });
