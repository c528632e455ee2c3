// An issuer with oidc-provider, for the tests of this folder:
//
//   node provider.mjs PORT [TTL [KEY]]
//
// It registers clients by themselves, also public ones, and gives out JWTs for any resource that a
// client names, which end after TTL seconds. Its own pages sign in whoever types a name. With KEY, it signs with
// a new key of this id. ID tokens have the groups of ann and bob. The client "service" gets tokens for itself.
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const [port, ttl = '3600', kid] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

const key = () => ({ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' });

const groups = { ann: ['staff', 'leads'], bob: ['staff'] };

const provider = new Provider(issuer, {
  ...(kid ? { jwks: { keys: [key()] } } : {}),
  clients: [{ client_id: 'service', client_secret: 'a secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
  cookies: { keys: ['the tests need no secret'] },
  scopes: ['openid', 'offline_access', 'mcp:basic'],
  pkce: { required: () => true },
  claims: { openid: ['sub', 'groups'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups[id] ?? [] }) }),
  rotateRefreshToken: true,
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1) },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: 'mcp:basic', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: Number(ttl), jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
provider.on('server_error', (_, err) => console.error(err));
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
