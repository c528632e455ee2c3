package doctor

// The codes of findings about the sign-in at a server that wants one. Those in the second half are found only if a
// person signs in.
const (
	BareChallenge        = "DRG-AUTH-CHALLENGE"
	LegacySignIn         = "DRG-AUTH-LEGACY"
	NoLegacySignIn       = "DRG-AUTH-OLD-CLIENTS"
	MetadataMissing      = "DRG-AUTH-METADATA-MISSING"
	MetadataInvalid      = "DRG-AUTH-METADATA"
	MetadataMoved        = "DRG-AUTH-METADATA-MOVED"
	AnswersEverything    = "DRG-AUTH-EVERY-PATH"
	OtherResource        = "DRG-AUTH-RESOURCE"
	NamesNoIssuer        = "DRG-AUTH-NO-ISSUER"
	OtherIssuer          = "DRG-AUTH-ISSUER"
	IssuerSlash          = "DRG-AUTH-ISSUER-SLASH"
	IssuerUnreached      = "DRG-AUTH-UNREACHABLE"
	AddressTooNear       = "DRG-AUTH-NEARER"
	OddEndpoint          = "DRG-AUTH-ENDPOINT"
	NoPKCE               = "DRG-AUTH-PKCE"
	CannotRegister       = "DRG-AUTH-NO-REGISTRATION"
	RefusesToRegister    = "DRG-AUTH-REGISTRATION"
	RefusesLoopback      = "DRG-AUTH-LOOPBACK"
	IssUnsent            = "DRG-AUTH-ISS-MISSING"
	IssWrong             = "DRG-AUTH-ISS-WRONG"
	SignInFails          = "DRG-AUTH-SIGN-IN"
	OwnTokenRefused      = "DRG-AUTH-TOKEN-REFUSED"
	EndlessScope         = "DRG-AUTH-SCOPES"
	IssuerMoves          = "DRG-AUTH-ISSUER-MOVES"
	ForgetsClients       = "DRG-AUTH-CLIENT-FORGOTTEN"
	RefreshRefused       = "DRG-AUTH-REFRESH"
	RefreshLosesAudience = "DRG-AUTH-REFRESH-RESOURCE"
	NoRotation           = "DRG-AUTH-ROTATION"
	NoGrace              = "DRG-AUTH-GRACE"

	IssUnpromised = "DRG-AUTH-ISS-OPTIONAL"
)

// conditionsOfSignIn describes the codes above.
var conditionsOfSignIn = []Condition{
	{BareChallenge, Warning, "answers 401 without saying where its metadata is", "Clients of 2025-06-18 look for resource_metadata in the header WWW-Authenticate, and some look nowhere else (2025-06-18 Authorization, Authorization Server Location). Later clients also try the well-known URLs.", "Send WWW-Authenticate: Bearer resource_metadata=\"URL\" with every 401.", "Dragoman also looks at the well-known URLs of the endpoint and of the origin."},
	{LegacySignIn, Warning, "has a sign-in, but no metadata", "The server has the fixed paths /authorize, /token and /register of 2025-03-26 alone. Clients of later revisions don't find them.", "Serve protected resource metadata (RFC 9728), and metadata of the authorization server with code_challenge_methods_supported.", "Dragoman uses these paths if there is no metadata at all."},
	{NoLegacySignIn, Info, "has no sign-in for clients of 2025-03-26", "These clients don't know the metadata of the server, which names the authorization server. They look for it on the server's own host (2025-03-26 Authorization, Server Metadata Discovery), where nothing is.", "If the authorization server is on the same host, serve its metadata at /.well-known/oauth-authorization-server. Otherwise give these clients a key or a token to send.", "Dragoman finds the authorization server. Its own endpoints have the same limit with access.issuers alone, and not with access.signIn: own."},
	{MetadataMissing, Error, "names metadata that isn't there", "The 401 of the server, or its metadata, names a document which the doctor didn't find. Nobody can sign in.", "Serve the document at the URL in the evidence, or name the URL where it is. An authorization server needs /.well-known/oauth-authorization-server or /.well-known/openid-configuration.", "Dragoman says which document is missing. The settings issuer, authorizationURL and tokenURL of signIn can take its place."},
	{MetadataInvalid, Error, "publishes metadata that can't be used", "A document about the sign-in is not one JSON object, is too large, has a member twice or with another type, or lacks a member. Clients fail, or read it differently.", "Serve one JSON object, as application/json, with the members that RFC 9728 and RFC 8414 require, each once. If there is no document at a path, answer 404.", "Dragoman refuses the document, says what is wrong with it, and doesn't look for another one."},
	{MetadataMoved, Error, "redirects to metadata elsewhere", "Clients don't follow redirects of metadata to another origin, because whoever can redirect them could send people to another authorization server.", "Serve the document itself at the URL in the evidence.", "Dragoman follows redirects within the origin alone."},
	{AnswersEverything, Warning, "answers well-known paths that don't exist with 200", "Clients look for documents at several well-known paths. If a path without a document is answered with 200, they read the page as a document and fail, or begin a sign-in where there is none.", "Answer 404 to every path below /.well-known/ that has no document.", "Dragoman refuses a page in the place of a document, and says where it got it."},
	{OtherResource, Error, "publishes metadata of another resource", "The member resource is neither the URL of the server nor a parent of it. Clients must not use such metadata, because it could make them send a token for another server (RFC 9728, section 3.3).", "Put the URL of the endpoint into resource, as clients see it. Behind a proxy, that's the public URL.", "Dragoman refuses the metadata."},
	{NamesNoIssuer, Error, "names no authorization server", "The member authorization_servers is missing or empty, so clients don't know where to sign in.", "Name at least one authorization server in authorization_servers.", "Dragoman uses the setting issuer of signIn, if there is one."},
	{OtherIssuer, Error, "names an authorization server that calls itself by another name", "The issuer in the metadata differs from the one in authorization_servers. Clients must not use such metadata, because one server could pose as another (RFC 8414, section 3.3).", "Make both the same, character by character.", "Dragoman refuses the metadata."},
	{IssuerSlash, Warning, "names an authorization server with an issuer that differs by a slash", "Clients that compare the issuer in the metadata with the one in authorization_servers, as RFC 8414 requires, refuse to sign in.", "Make both the same, with or without the slash at the end.", "Dragoman accepts the difference if the URL has no path, and from then on takes the spelling of the metadata."},
	{IssuerUnreached, Error, "names an authorization server that can't be reached", "A request about the sign-in got no answer, or one with HTTP status 429 or 5xx. People can't sign in until it works.", "Check that the URL in the evidence answers, also from outside your network.", "Dragoman tries again later, and keeps everybody signed in."},
	{AddressTooNear, Error, "names an address that must not be asked", "An address in the challenge or the metadata lies nearer to this machine than the server itself, or isn't https. Clients that guard against SSRF refuse it.", "Publish https URLs that everybody who reaches the server can reach.", "Dragoman doesn't ask such an address, unless the setting egress.allow has its host."},
	{OddEndpoint, Error, "names an authorization server without a usable endpoint", "The authorization endpoint or the token endpoint is missing, isn't an https URL, or has characters that don't belong into a URL.", "Publish authorization_endpoint and token_endpoint as https URLs without user and fragment.", "Dragoman refuses the metadata."},
	{NoPKCE, Error, "names an authorization server that doesn't promise PKCE with S256", "Clients must refuse to sign in if code_challenge_methods_supported is missing or lacks S256, because a code could be stolen (2025-11-25 Authorization, Authorization Code Protection).", "Support S256, and list it in code_challenge_methods_supported, also in the metadata of OpenID Connect.", "Dragoman refuses to sign in there."},
	{CannotRegister, Warning, "names an authorization server at which no client can register by itself", "There is neither a registration endpoint nor support for client id metadata documents. Everybody has to register a client by hand before they can sign in.", "Support client id metadata documents and say so in client_id_metadata_document_supported, or offer dynamic registration.", "Dragoman uses the setting clientID of signIn, and names the redirect URI to register."},
	{RefusesToRegister, Error, "has a registration endpoint that registers nobody", "Clients find a registration_endpoint and use it, but it refuses them or answers with something else than a client.", "Register clients that have no credentials yet, or don't publish registration_endpoint.", "Dragoman says what the endpoint answered, and names the redirect URI to register by hand."},
	{RefusesLoopback, Error, "registers no client with a redirect URI on loopback", "Programs on a person's machine get the answer of a sign-in at an http URL of 127.0.0.1 or localhost (RFC 8252). They can't sign in here; web applications can.", "Accept http redirect URIs of 127.0.0.1, [::1] and localhost for clients with the application_type native, with any port.", "Dragoman tries the other application_type once. A public Dragoman has an https redirect URI."},
	{IssUnsent, Error, "has an authorization server that promises iss and doesn't send it", "Clients must reject an answer to a sign-in without iss if authorization_response_iss_parameter_supported is true (2026-07-28 Authorization, Authorization Response Validation).", "Send iss with every answer, errors included, or remove the promise from the metadata.", "Dragoman rejects the answer, and says why."},
	{IssWrong, Error, "has an authorization server that sends another iss than its issuer", "Clients compare iss with the issuer in the metadata, character by character, and reject an answer that differs (RFC 9207, section 2.4).", "Send the issuer as it is spelled in the metadata.", "Dragoman rejects the answer, and says why."},
	{IssUnpromised, Info, "has an authorization server that doesn't promise iss", "Without iss in its answers, a client that uses several authorization servers can't tell whose answer it got. A later revision is expected to require it.", "Send iss with every answer, and set authorization_response_iss_parameter_supported (RFC 9207).", "Dragoman uses a redirect URI of its own for each such server."},

	{SignInFails, Error, "has a sign-in that doesn't succeed", "A person went to the authorization server, but no token came of it.", "Look at the answer in the evidence, and at the log of the authorization server.", "Dragoman shows the person the same answer, and asks again at the next call."},
	{OwnTokenRefused, Error, "refuses the token that its authorization server gave", "People sign in, and then are asked to sign in again. Often the server expects another audience than the resource in its metadata.", "Accept tokens whose audience is the resource in your metadata.", "Dragoman asks for a new token once, and then says that the server refuses it. The setting resource of signIn may help."},
	{EndlessScope, Error, "wants more scopes although they were granted", "The server answered 403 with insufficient_scope to a token that has the scopes which it asked for.", "Name in the challenge all scopes that the request needs, and accept a token that has them.", "Dragoman asks at most three times an hour for the same scopes, and then says which scope the server wants."},
	{IssuerMoves, Warning, "changes its authorization server", "The metadata names another authorization server than a moment ago, so everybody has to sign in again.", "Keep the authorization server, or accept tokens of the old one until they expire.", "Dragoman registers anew, and sends nothing of the old authorization server to the new one."},
	{ForgetsClients, Warning, "has an authorization server that forgets clients", "A client that was registered a moment ago is unknown when it renews its token. Often registrations are kept in memory, or by one of several processes.", "Keep registrations in a database that all processes share.", "Dragoman registers anew at the next sign-in."},
	{RefreshRefused, Warning, "has an authorization server that refuses to renew a token", "The authorization server gave a refresh token and then refused it, so people have to sign in again and again.", "Accept each refresh token once, or don't give any.", "Dragoman asks for a new sign-in, and says why."},
	{RefreshLosesAudience, Error, "has an authorization server that ignores resource when a token is renewed", "The first token works, and the one that it is renewed with is refused. People are signed out after the life of a token (RFC 8707, section 2.2).", "Give a renewed token the audience that resource names, or that of the token before.", "Dragoman sends resource with every refresh. When the server refuses the new token, it asks for a new sign-in."},
	{NoRotation, Warning, "has an authorization server that doesn't rotate refresh tokens", "A refresh token of a client without a secret must be replaced at each use, so that a stolen one is noticed (2025-11-25 Authorization, Token Theft).", "Answer a refresh of a public client with a new refresh token, and revoke all tokens when an old one is used.", "Dragoman keeps refresh tokens encrypted, and uses them from one process at a time."},
	{NoGrace, Info, "has an authorization server that ends a sign-in when a refresh token is used twice", "That's right if somebody has stolen the token. But a client that loses the answer to a refresh, because it is killed or its network fails, has to sign in again.", "Accept the last refresh token again for some seconds, until its successor is used.", "Dragoman writes each answer to disk before it uses it, and says so if an answer was lost."},
}
