#!/usr/bin/env node
// One turn of a session of Loom's, with the hooks of the `agent.json` in the current directory, read as Ownware reads a profile.
// Bundled with the sources of both: `@ownware/loom` is Loom, `profile/` the directory in which Ownware reads profiles.

import { readFileSync } from 'node:fs'
import { AnthropicProvider, Session, createDefaultConfig, mergeConfig, shellTools } from '@ownware/loom'
import { buildHookBinding, hookBindingOptionsFromEnv } from 'profile/hooks.ts'
import { ProfileSchema } from 'profile/schema.ts'

const config = ProfileSchema.parse(JSON.parse(readFileSync('agent.json', 'utf8')))
const hooks = buildHookBinding({ config, basePath: process.cwd() }, hookBindingOptionsFromEnv())
const session = new Session({
  config: mergeConfig(createDefaultConfig(config.model), { workspacePath: process.cwd() }),
  provider: new AnthropicProvider(),
  tools: shellTools,
  permissionMode: 'auto',
  hooks: hooks?.runtime,
  reminders: hooks?.reminders,
})
for await (const event of session.submitMessage(process.argv[2])) {
  if (event.type !== 'text.delta') console.log(JSON.stringify(event))
}
// What a hook has left would keep the turn open.
process.exit()
