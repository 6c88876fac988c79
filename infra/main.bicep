// What the gate stands on: one container app with an identity of its own, a container for its runs, the store that
// says which index is live, and the rights that this takes. The search service and the registry exist already.
targetScope = 'resourceGroup'

@description('Prefix of every name made here.')
@minLength(3)
@maxLength(20)
param name string = 'search-index-gate'

@description('Region of everything made here.')
param location string = resourceGroup().location

@description('Repository and tag (or digest) of the image in the registry, for example search-index-gate:1.4.0.')
param image string

@description('Name of the container registry.')
param registryName string

@description('Resource group of the container registry.')
param registryResourceGroup string = resourceGroup().name

@description('Name of the search service that holds the baseline and the candidates.')
param searchServiceName string

@description('Resource group of the search service.')
param searchResourceGroup string = resourceGroup().name

@description('Name of the App Configuration store that says which index is live. Empty: none is made, an alias says it.')
@maxLength(50)
param appConfigurationName string = ''

@description('Key in that store whose value is the live index.')
param liveKey string = 'search:live-index'

@description('Label of that key. Empty: the key without a label.')
param liveLabel string = ''

@description('Index alias that says which index is live, where there is no store for it.')
param liveAlias string = ''

@description('Whether the service itself promotes and rolls back: then it may write the key, or the aliases.')
param promotes bool = false

@description('Whether rights on the search service are a role made here, or else Reader. Making one takes the right to.')
param customSearchRoles bool = false

@description('Golden sets that a promotion takes a cleared run of each, comma-separated.')
param requiredSets string = ''

@description('Tenant whose tokens the service accepts.')
param entraTenantId string = subscription().tenantId

@description('Audience that a token must name: the client id of the application registered for the service.')
param entraAudience string

@description('Secret of that application, where people sign in as a confidential client. Empty: they do not.')
@secure()
param entraClientSecret string = ''

@description('What signs the cookies of people who signed in. Left out, everybody signs in again after a deployment.')
@secure()
//checkov:skip=CKV_AZURE_131:The default is two new random values of each deployment, and written nowhere
param sessionKeys string = '${newGuid()}${newGuid()}'

@description('Secret of checks of Azure DevOps environments, 32 random characters or more. Empty: there are none.')
@secure()
param checkSecret string = ''

@description('Addresses of the organisations whose checks are answered, comma-separated: https://dev.azure.com/contoso.')
param checkOrganizations string = ''

@description('Address that people reach the service by. Empty: the one that the platform gives it.')
param publicUrl string = ''

@description('Whether the service can be reached from outside its environment. Hosted build agents need it.')
param externalIngress bool = true

@description('Subnet of the environment, delegated to Microsoft.App/environments. Empty: a network of the platform.')
param environmentSubnetId string = ''

@description('Subnet for private endpoints of storage, store and search service. Empty: they are reached publicly.')
param endpointSubnetId string = ''

@description('Network whose names for those endpoints are kept here; the one of the subnets.')
param virtualNetworkId string = ''

@description('Processor cores of the one replica.')
param cpu string = '0.5'

@description('Memory of the one replica; the platform wants 2 Gi a core.')
param memory string = '1Gi'

@description('How the runs are replicated. Not every region has zones.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param storageSku string = 'Standard_ZRS'

@description('Days that logs are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('Days that a deleted run, or a version of one that was written over, can be restored.')
@minValue(1)
@maxValue(365)
param deletedRunRetentionDays int = 30

@description('Days after which a run is deleted. What was promoted stays in the audit for longer; it is not deleted here.')
@minValue(30)
param runRetentionDays int = 400

var port = 8080
var runsContainer = 'runs'
var storageBlobDataContributor = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
var monitoringMetricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb'

var hasStore = !empty(appConfigurationName)
var isPrivate = !empty(endpointSubnetId)

// An empty setting is none. The service takes one place that says what is live.
var optionalSettings = filter([
  {
    name: 'GATE_APPCONFIG_ENDPOINT'
    value: hasStore ? 'https://${appConfigurationName}.azconfig.io' : ''
  }
  {
    name: 'GATE_LIVE_KEY'
    value: hasStore ? liveKey : ''
  }
  {
    name: 'GATE_LIVE_LABEL'
    value: hasStore ? liveLabel : ''
  }
  {
    name: 'GATE_LIVE_ALIAS'
    value: hasStore ? '' : liveAlias
  }
  {
    name: 'GATE_REQUIRED_SETS'
    value: requiredSets
  }
  {
    name: 'GATE_CHECK_ORGANIZATIONS'
    value: checkOrganizations
  }
], setting => !empty(setting.value))

var hasClientSecret = !empty(entraClientSecret)
var hasCheckSecret = !empty(checkSecret)

resource search 'Microsoft.Search/searchServices@2023-11-01' existing = {
  name: searchServiceName
  scope: resourceGroup(searchResourceGroup)
}

resource registry 'Microsoft.ContainerRegistry/registries@2023-07-01' existing = {
  name: registryName
  scope: resourceGroup(registryResourceGroup)
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: name
  location: location
}

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  //checkov:skip=CKV_AZURE_35:Closed to the public where there are private endpoints; without them a token is the lock
  //checkov:skip=CKV_AZURE_206:Replication over zones is the default here, and a parameter; runs may stay in their region
  //checkov:skip=CKV_AZURE_43:The name is four letters and thirteen of a hash; an interpolated name is not read
  name: 'gate${uniqueString(resourceGroup().id, name)}'
  location: location
  kind: 'StorageV2'
  sku: {
    name: storageSku
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: isPrivate ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'None'
      defaultAction: isPrivate ? 'Deny' : 'Allow'
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
  properties: {
    isVersioningEnabled: true
    deleteRetentionPolicy: {
      enabled: true
      days: deletedRunRetentionDays
    }
    containerDeleteRetentionPolicy: {
      enabled: true
      days: deletedRunRetentionDays
    }
  }
}

// Old runs go: their status, texts and evidence. What people decided, and the audit of what was live, stay.
resource oldRuns 'Microsoft.Storage/storageAccounts/managementPolicies@2023-05-01' = {
  parent: storage
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'old-runs'
          type: 'Lifecycle'
          enabled: true
          definition: {
            filters: {
              blobTypes: [
                'blockBlob'
                'appendBlob'
              ]
              prefixMatch: [
                '${runsContainer}/runs/'
                '${runsContainer}/status/'
                '${runsContainer}/keys/'
              ]
            }
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: runRetentionDays
                }
              }
            }
          }
        }
        {
          name: 'old-versions'
          type: 'Lifecycle'
          enabled: true
          definition: {
            filters: {
              blobTypes: [
                'blockBlob'
              ]
              prefixMatch: [
                '${runsContainer}/'
              ]
            }
            actions: {
              version: {
                delete: {
                  daysAfterCreationGreaterThan: deletedRunRetentionDays
                }
              }
            }
          }
        }
      ]
    }
  }
}

resource runs 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: runsContainer
  properties: {
    publicAccess: 'None'
  }
}

// For example https://account.blob.core.windows.net/runs; the endpoint ends in a slash.
var runsUrl = '${storage.properties.primaryEndpoints.blob}${runsContainer}'

resource runsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(runs.id, identity.id, storageBlobDataContributor)
  scope: runs
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataContributor)
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

module searchRoles 'search-roles.bicep' = {
  name: '${name}-search-roles'
  scope: resourceGroup(searchResourceGroup)
  params: {
    searchServiceName: searchServiceName
    principalId: identity.properties.principalId
    customRoles: customSearchRoles
    writesAliases: promotes && !hasStore
  }
}

module appConfiguration 'app-configuration.bicep' = if (hasStore) {
  name: '${name}-app-configuration'
  params: {
    appConfigurationName: appConfigurationName
    location: location
    principalId: identity.properties.principalId
    writes: promotes
    isPrivate: isPrivate
  }
}

module privateEndpoints 'private-endpoints.bicep' = if (isPrivate) {
  name: '${name}-private-endpoints'
  params: {
    name: name
    location: location
    subnetId: endpointSubnetId
    virtualNetworkId: virtualNetworkId
    targets: concat([
      {
        kind: 'blob'
        id: storage.id
        zone: 'privatelink.blob.${environment().suffixes.storage}'
      }
      {
        kind: 'searchService'
        id: search.id
        zone: 'privatelink.search.windows.net'
      }
    ], hasStore ? [
      {
        kind: 'configurationStores'
        id: resourceId('Microsoft.AppConfiguration/configurationStores', appConfigurationName)
        zone: 'privatelink.azconfig.io'
      }
    ] : [])
  }
  dependsOn: [
    appConfiguration
  ]
}

module registryRole 'registry-role.bicep' = {
  name: '${name}-registry-role'
  scope: resourceGroup(registryResourceGroup)
  params: {
    registryName: registryName
    principalId: identity.properties.principalId
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: name
  location: location
  properties: {
    retentionInDays: logRetentionDays
    sku: {
      name: 'PerGB2018'
    }
    features: {
      disableLocalAuth: true
    }
  }
}

// Logs go through Azure Monitor: the other way would need the workspace's shared key here.
resource apps 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: name
  location: location
  properties: {
    appLogsConfiguration: {
      destination: 'azure-monitor'
    }
    vnetConfiguration: empty(environmentSubnetId) ? null : {
      infrastructureSubnetId: environmentSubnetId
      internal: !externalIngress
    }
    workloadProfiles: [
      {
        name: 'Consumption'
        workloadProfileType: 'Consumption'
      }
    ]
  }
}

// The address that the platform will give the service.
var ownUrl = 'https://${name}.${externalIngress ? '' : 'internal.'}${apps.properties.defaultDomain}'

// What the service measures; its connection string says where to, and the identity's role that it may.
resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: name
  location: location
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: logs.id
    DisableLocalAuth: true
  }
}

resource insightsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, identity.id, monitoringMetricsPublisher)
  scope: insights
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', monitoringMetricsPublisher)
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource appsLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-workspace'
  scope: apps
  properties: {
    workspaceId: logs.id
    logs: [
      {
        categoryGroup: 'allLogs'
        enabled: true
      }
    ]
  }
}

resource service 'Microsoft.App/containerApps@2024-03-01' = {
  name: name
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    environmentId: apps.id
    workloadProfileName: 'Consumption'
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: concat([
        {
          name: 'session-keys'
          value: sessionKeys
        }
      ], hasClientSecret ? [
        {
          name: 'entra-client-secret'
          value: entraClientSecret
        }
      ] : [], hasCheckSecret ? [
        {
          name: 'check-secret'
          value: checkSecret
        }
      ] : [])
      ingress: {
        external: externalIngress
        targetPort: port
        transport: 'http'
        allowInsecure: false
      }
      registries: [
        {
          server: registry.properties.loginServer
          identity: identity.id
        }
      ]
    }
    template: {
      // Time to finish requests, put the runs down and let their leases go.
      terminationGracePeriodSeconds: 60
      containers: [
        {
          name: 'gate'
          image: '${registry.properties.loginServer}/${image}'
          resources: {
            cpu: json(cpu)
            memory: memory
          }
          env: concat([
            {
              name: 'AZURE_CLIENT_ID'
              value: identity.properties.clientId
            }
            {
              name: 'GATE_HOST'
              value: '0.0.0.0'
            }
            {
              name: 'GATE_PORT'
              value: string(port)
            }
            {
              name: 'GATE_AUTH'
              value: 'entra'
            }
            {
              name: 'GATE_ENTRA_TENANT_ID'
              value: entraTenantId
            }
            {
              name: 'GATE_ENTRA_AUDIENCE'
              value: entraAudience
            }
            {
              name: 'GATE_RUNS_URL'
              value: runsUrl
            }
            {
              name: 'GATE_SEARCH_ENDPOINT'
              value: 'https://${search.name}.search.windows.net'
            }
            {
              name: 'GATE_PUBLIC_URL'
              value: empty(publicUrl) ? ownUrl : publicUrl
            }
            {
              name: 'GATE_SESSION_KEYS'
              secretRef: 'session-keys'
            }
            {
              name: 'APPLICATIONINSIGHTS_CONNECTION_STRING'
              value: insights.properties.ConnectionString
            }
          ], hasClientSecret ? [
            {
              name: 'GATE_ENTRA_CLIENT_SECRET'
              secretRef: 'entra-client-secret'
            }
          ] : [], hasCheckSecret ? [
            {
              name: 'GATE_CHECK_SECRET'
              secretRef: 'check-secret'
            }
          ] : [], optionalSettings)
          probes: [
            {
              type: 'Startup'
              httpGet: {
                path: '/healthz'
                port: port
                scheme: 'HTTP'
              }
              periodSeconds: 5
              timeoutSeconds: 3
              failureThreshold: 10
            }
            {
              // Asks nothing of search or storage: a restart would not bring those back.
              type: 'Liveness'
              httpGet: {
                path: '/healthz'
                port: port
                scheme: 'HTTP'
              }
              periodSeconds: 10
              timeoutSeconds: 5
              failureThreshold: 3
            }
            {
              type: 'Readiness'
              httpGet: {
                path: '/readyz'
                port: port
                scheme: 'HTTP'
              }
              periodSeconds: 10
              timeoutSeconds: 10
              failureThreshold: 3
            }
          ]
        }
      ]
      // Never none: a run goes on without requests, which is all that scaling would look at. Never two: one
      // process keeps the number of queries to the search service within its limit.
      scale: {
        minReplicas: 1
        maxReplicas: 1
      }
    }
  }
  dependsOn: [
    runsRole
    insightsRole
    searchRoles
    appConfiguration
    registryRole
    privateEndpoints
  ]
}

@description('Where the service answers: GATE_SERVICE_URL of the pipeline.')
output serviceUrl string = 'https://${service.properties.configuration.ingress.fqdn}'

@description('Resource id of the container app, to look at its revisions.')
output serviceId string = service.id

@description('Object id of the identity that the service runs as, for rights that are given elsewhere.')
output identityPrincipalId string = identity.properties.principalId

@description('Client id of the identity that the service runs as.')
output identityClientId string = identity.properties.clientId

@description('Where the service keeps its runs.')
output runsUrl string = runsUrl
