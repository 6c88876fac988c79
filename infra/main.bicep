// What the gate stands on: one container app with an identity of its own, a container for its runs, and the
// rights to read what it judges. The search service, the App Configuration store and the registry exist already.
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

@description('Name of the App Configuration store that says which index is live.')
param appConfigurationName string

@description('Resource group of the App Configuration store.')
param appConfigurationResourceGroup string = resourceGroup().name

@description('Key in that store whose value is the live index.')
param liveKey string

@description('Label of that key. Empty: the key without a label.')
param liveLabel string = ''

@description('Tenant whose tokens the service accepts.')
param entraTenantId string = subscription().tenantId

@description('Audience that a token must name: the client id of the application registered for the service.')
param entraAudience string

@secure()
@description('What signs the cookies of people who sign in: at least 32 random characters. Two with a comma, the newer one first, while one is replaced.')
param sessionKeys string

@description('Whether the service can be reached from outside its environment. Hosted build agents need it.')
param externalIngress bool = true

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

@description('Days that a deleted run can be restored.')
@minValue(1)
@maxValue(365)
param deletedRunRetentionDays int = 30

var port = 8080
var runsContainer = 'runs'
var storageBlobDataContributor = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'

var labelOfLiveKey = empty(liveLabel) ? [] : [
  {
    name: 'GATE_LIVE_LABEL'
    value: liveLabel
  }
]

resource search 'Microsoft.Search/searchServices@2023-11-01' existing = {
  name: searchServiceName
  scope: resourceGroup(searchResourceGroup)
}

resource appConfiguration 'Microsoft.AppConfiguration/configurationStores@2023-03-01' existing = {
  name: appConfigurationName
  scope: resourceGroup(appConfigurationResourceGroup)
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
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
  properties: {
    deleteRetentionPolicy: {
      enabled: true
      days: deletedRunRetentionDays
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
// Within the environment the name has another part.
var publicUrl = 'https://${externalIngress ? name : '${name}.internal'}.${apps.properties.defaultDomain}'
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
  }
}

module appConfigurationRole 'app-configuration-role.bicep' = {
  name: '${name}-app-configuration-role'
  scope: resourceGroup(appConfigurationResourceGroup)
  params: {
    appConfigurationName: appConfigurationName
    principalId: identity.properties.principalId
  }
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
    configuration: {
      activeRevisionsMode: 'Single'
      ingress: {
        external: externalIngress
        targetPort: port
        transport: 'http'
        allowInsecure: false
      }
      secrets: [
        {
          name: 'session-keys'
          value: sessionKeys
        }
      ]
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
              name: 'GATE_PUBLIC_URL'
              value: publicUrl
            }
            {
              name: 'GATE_SESSION_KEYS'
              secretRef: 'session-keys'
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
              name: 'GATE_APPCONFIG_ENDPOINT'
              value: appConfiguration.properties.endpoint
            }
            {
              name: 'GATE_LIVE_KEY'
              value: liveKey
            }
          ], labelOfLiveKey)
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
    searchRoles
    appConfigurationRole
    registryRole
  ]
}

@description('Where the service answers: GATE_SERVICE_URL of the pipeline.')
output serviceUrl string = 'https://${service.properties.configuration.ingress.fqdn}'

@description('Object id of the identity that the service runs as, for rights that are given elsewhere.')
output identityPrincipalId string = identity.properties.principalId

@description('Client id of the identity that the service runs as.')
output identityClientId string = identity.properties.clientId

@description('Where the service keeps its runs.')
output runsUrl string = runsUrl
