// An OpenID provider that signs Ada in, mounted where a tenant of Entra has its own: /<tenant>/v2.0.
// node provider.mjs <node_modules> <port> <tenant> <client> <secret> <redirect_uri>
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [modules, port, tenant, client, secret, redirect] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
const mount = `/${tenant}/v2.0`;
const issuer = `http://127.0.0.1:${port}${mount}`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: client,
    client_secret: secret,
    redirect_uris: [redirect],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  claims: { openid: ['sub', 'oid', 'tid', 'ver', 'nbf', 'roles'], profile: ['name'] },
  conformIdTokenClaims: false, // as Entra: all claims are in the ID token
  cookies: { keys: ['a key of the tests'] },
  interactions: { url: (_, interaction) => `${mount}/interaction/${interaction.uid}` },
  findAccount: (_, sub) => ({
    accountId: sub,
    claims: () => ({
      sub,
      oid: `object-of-${sub}`,
      tid: tenant,
      ver: '2.0',
      nbf: Math.floor(Date.now() / 1000) - 5,
      roles: ['Gate.Review'],
      name: 'Ada Lovelace',
    }),
  }),
});
provider.on('server_error', (_, error) => console.error(error));

const answer = provider.callback();
createServer((request, response) => {
  request.originalUrl = request.url;
  if (request.url.startsWith(mount)) request.url = request.url.slice(mount.length) || '/';
  answer(request, response);
}).listen(Number(port), '127.0.0.1', () => console.log(`listens ${issuer}`));
