// Clients that sign in at Dragoman's own authorization server: oauth4webapi, which knows nothing of MCP and
// is strict, and both TypeScript SDKs. The script prints "OPEN URL" when a person has to open a URL, and
// "REMOVE ID" when the client is to be removed, and goes on when it has read a line. It exits with 0 if
// everything was as it should be.
import assert from 'node:assert/strict'
import http from 'node:http'
import readline from 'node:readline'

const [url, mode] = process.argv.slice(2)
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = async line => { console.log(line); await input.next() }

// The redirect URI has a port of its own.
let arrived
const listener = http.createServer((req, res) => {
  res.end('You can close this page.')
  arrived?.(new URL(req.url, redirect))
}).listen(0, '127.0.0.1')
await new Promise(done => listener.once('listening', done))
const redirect = `http://127.0.0.1:${listener.address().port}/callback`
// visit lets the person open a URL, and returns the one to which the browser came back.
const visit = async at => {
  const back = new Promise(done => { arrived = done })
  await say('OPEN ' + at)
  return back
}

const listTools = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}, 'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' } } } }

async function strict() {
  const o = await import('oauth4webapi')
  const insecure = { [o.allowInsecureRequests]: true } // http on loopback
  const resource = new URL(url)
  const ask = token => o.protectedResourceRequest(token, 'POST', resource, new Headers({
    'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/list' }), JSON.stringify(listTools), insecure)
  const rs = await o.processResourceDiscoveryResponse(resource, await o.resourceDiscoveryRequest(resource, insecure))
  const issuer = new URL(rs.authorization_servers[0])
  const as = await o.processDiscoveryResponse(issuer, await o.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure }))
  const pair = await o.generateKeyPair('ES256')
  const publicKey = { ...await crypto.subtle.exportKey('jwk', pair.publicKey), kid: 'k1', alg: 'ES256', use: 'sig' }
  for (const method of ['none', 'client_secret_post', 'client_secret_basic', 'private_key_jwt']) {
    const client = await o.processDynamicClientRegistrationResponse(await o.dynamicClientRegistrationRequest(as, {
      client_name: 'oauth4webapi', redirect_uris: [redirect], token_endpoint_auth_method: method, grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
      ...(method === 'private_key_jwt' && { jwks: { keys: [publicKey] } }) }, insecure))
    const auth = { none: () => o.None(), client_secret_post: () => o.ClientSecretPost(client.client_secret), client_secret_basic: () => o.ClientSecretBasic(client.client_secret),
      private_key_jwt: () => o.PrivateKeyJwt({ key: pair.privateKey, kid: 'k1' }) }[method]()
    const verifier = o.generateRandomCodeVerifier(), state = o.generateRandomState()
    const at = new URL(as.authorization_endpoint)
    at.search = new URLSearchParams({ client_id: client.client_id, redirect_uri: redirect, response_type: 'code', state, resource: url, scope: 'mcp openid email profile',
      code_challenge: await o.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256' })
    const back = o.validateAuthResponse(as, client, await visit(at), state) // iss must be there and right
    const exchange = () => o.authorizationCodeGrantRequest(as, client, auth, back, redirect, verifier, { additionalParameters: { resource: url }, ...insecure })
    const first = await o.processAuthorizationCodeResponse(as, client, await exchange())
    assert.equal((await ask(first.access_token)).status, 200)
    const refresh = async token => o.processRefreshTokenResponse(as, client, await o.refreshTokenGrantRequest(as, client, auth, token, insecure))
    const second = await refresh(first.refresh_token)
    assert.equal((await refresh(first.refresh_token)).refresh_token, second.refresh_token) // the answer was lost
    const third = await refresh(second.refresh_token)
    await assert.rejects(refresh(first.refresh_token), e => e.error === 'invalid_grant') // a replay revokes
    await assert.rejects(refresh(third.refresh_token), e => e.error === 'invalid_grant')
    await assert.rejects(ask(third.access_token), e => e.cause?.[0]?.parameters?.error === 'invalid_token')
    await o.processRevocationResponse(await o.revocationRequest(as, client, auth, third.refresh_token, insecure)) // a dead one
    await assert.rejects(async () => o.processAuthorizationCodeResponse(as, client, await exchange()), e => e.error === 'invalid_grant')
  }
}

async function sdk(name) {
  const { Client, StreamableHTTPClientTransport } = name === '@modelcontextprotocol/client' ? await import(name)
    : { ...await import(name + '/client/index.js'), ...await import(name + '/client/streamableHttp.js') }
  let saved = {}, back
  const provider = {
    get redirectUrl() { return redirect },
    get clientMetadata() { return { client_name: name, redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none' } },
    clientInformation: () => saved.client, saveClientInformation: c => { saved.client = c },
    tokens: () => saved.tokens, saveTokens: t => { saved.tokens = t },
    codeVerifier: () => saved.verifier, saveCodeVerifier: v => { saved.verifier = v },
    state: () => 'the-state',
    redirectToAuthorization: async at => { back = await visit(at) },
    invalidateCredentials: what => {
      if (what === 'all' || what === 'client') delete saved.client
      if (what === 'all' || what === 'tokens') delete saved.tokens
    },
  }
  const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider })
    const client = new Client({ name: 'sdk', version: '1' })
    await client.connect(transport)
    return client
  }
  // signIn connects, with the person's help the first time.
  const signIn = async () => {
    const before = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider })
    await assert.rejects(new Client({ name: 'sdk', version: '1' }).connect(before), e => e.name === 'UnauthorizedError' || /Unauthorized/.test(e.message + e.constructor.name))
    assert.equal(back.searchParams.get('state'), 'the-state')
    await before.finishAuth(back.searchParams.get('code'), back.searchParams.get('iss'))
    return connect()
  }
  let client = await signIn()
  assert.ok((await client.listTools()).tools.length > 0)
  await client.close()
  // An access token that isn't good any more is refreshed without anybody.
  const { access_token, refresh_token } = saved.tokens
  saved.tokens.access_token = access_token.slice(0, -1) + '-'
  client = await connect()
  assert.ok((await client.listTools()).tools.length > 0)
  assert.notEqual(saved.tokens.refresh_token, refresh_token)
  await client.close()
  // A client that was removed registers anew.
  const id = saved.client.client_id
  await say('REMOVE ' + id)
  client = await signIn()
  assert.ok((await client.listTools()).tools.length > 0)
  assert.notEqual(saved.client.client_id, id)
  await client.close()
}

try {
  await (mode === 'oauth4webapi' ? strict() : sdk(mode))
} finally {
  listener.close()
}
process.exit(0)
