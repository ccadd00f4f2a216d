// Runs the two providers; the first line of the output is their addresses.
import { provider } from "./provider.mjs";

const both = await Promise.all(["alpha", "beta"].map(provider));
console.log(both.map((p) => p.address).join(" "));
