/** The Python that was chosen in the Python extension, where that is installed. */

import * as vscode from "vscode";

/** As much of the API of ms-python.python as is used here. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(
      environment: { readonly path: string },
    ): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

export async function chosenPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await api())?.environments;
  const resolved = await environments?.resolveEnvironment(environments.getActiveEnvironmentPath(folder));
  return resolved?.executable.uri?.fsPath;
}

/** Calls back when another Python is chosen. */
export function onPythonChosen(then: () => void): vscode.Disposable {
  let listening: vscode.Disposable | undefined;
  let disposed = false;
  void api().then((python) => {
    if (!disposed) {
      listening = python?.environments.onDidChangeActiveEnvironmentPath(then);
    }
  });
  return new vscode.Disposable(() => {
    disposed = true;
    listening?.dispose();
  });
}

async function api(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  try {
    return await extension?.activate();
  } catch {
    return undefined; // an extension that fails is as good as none
  }
}
